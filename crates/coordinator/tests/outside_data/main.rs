//! Data from outside, however well it decodes, leaves the coordinator running: any state that it
//! goes on from.

mod entries;
#[allow(dead_code, reason = "the codec's own tests use the rest")]
#[path = "../../../protocol/tests/codec/samples/mod.rs"]
mod samples;
#[path = "../../../protocol/tests/codec/spoil.rs"]
mod spoil;

use protocol::codec::Wire;

#[test]
fn coordinator_goes_on_from_spoilt_states() {
    let valid = |random: &mut spoil::Random| {
        // Drawn as for every other entry.
        let _ = (random.bytes(300), random.below(samples::samples().len()));
        samples::state().to_bytes()
    };
    spoil::holds_for_spoilt_bytes("coordinator_state", entries::coordinator_state, valid);
}
