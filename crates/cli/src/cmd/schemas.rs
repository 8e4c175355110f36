//! The published schemas of what this crate itself prints as JSON.
use super::{bench, doctor, remedies_text, symbolize, top, what_if};
use crate::baseline::Baseline;
use kasuri_testkit::schema::{generated, publish};

#[test]
fn generated_schemas_are_what_the_structs_say() {
    publish(vec![
        generated::<Baseline>("baseline"),
        generated::<bench::Bench>("bench"),
        generated::<doctor::Answer<'_>>("doctor"),
        generated::<symbolize::Answer<'_>>("symbolize"),
        generated::<top::Line<'_>>("top"),
        generated::<remedies_text::Answer<'_>>("try"),
        generated::<what_if::Told>("what_if"),
    ]);
}
