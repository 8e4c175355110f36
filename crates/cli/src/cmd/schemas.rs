//! The published schemas of what this crate itself prints as JSON.
use super::{bench, doctor, events, remedies_text, sql, symbolize, top, usdt, what_if};
use crate::baseline::Baseline;
use kasuri_testkit::schema::{generated, publish};

#[test]
fn generated_schemas_are_what_the_structs_say() {
    publish(vec![
        generated::<Baseline>("baseline"),
        generated::<bench::Bench>("bench"),
        generated::<doctor::Answer<'_>>("doctor"),
        generated::<events::Answer<'_>>("events"),
        generated::<kasuri_lab::overhead::Overhead>("overhead"),
        generated::<sql::Catalogue>("sql"),
        generated::<symbolize::Answer<'_>>("symbolize"),
        generated::<top::Line<'_>>("top"),
        generated::<usdt::Answer<'_>>("usdt"),
        generated::<kasuri_lab::volume::Volume>("volume"),
        generated::<remedies_text::Answer<'_>>("try"),
        generated::<what_if::Told>("what_if"),
    ]);
}
