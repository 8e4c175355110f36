//! stub
use crate::error::Result;
use crate::options::Flight;
use crate::recorder::{Notify, Recorder, Summary};
use kasuri_format::meta::Anchor;
#[derive(Debug)]
pub(crate) struct FlightState {
    pub(crate) anchors: Vec<Anchor>,
}
impl FlightState {
    pub(crate) fn new(_flight: Flight) -> FlightState {
        FlightState {
            anchors: Vec::new(),
        }
    }
}
impl Recorder<'_> {
    pub(crate) fn trigger(&mut self, _notify: Notify<'_>) {}
    pub(crate) fn flight_tick(&mut self, _notify: Notify<'_>) {}
    pub(crate) fn flight_second(&mut self) -> Result<()> {
        Ok(())
    }
    pub(crate) fn flight_end(self, _notify: Notify<'_>) -> Result<Summary> {
        Ok(self.summary)
    }
}
