//! Any bytes may come in as a coordinator's state: what must hold for all of them is asserted. The
//! fuzzer calls this (`fuzz/`), and so does the test beside this file.

use coordinator::{
    Coordinator, CoordinatorInput, CoordinatorOutput, CoordinatorSettings, RequesterId,
};
use protocol::codec::Wire;
use protocol::identity::{ClockReading, Epoch};
use protocol::message::{CoordinatorRequest, FolderReport};
use protocol::state::{CoordinatorState, decode_state, encode_state};

/// A coordinator goes on from any state that passes its check.
pub fn coordinator_state(bytes: &[u8]) {
    let _ = decode_state(bytes);
    let Ok(state) = CoordinatorState::decode_all(bytes) else {
        return;
    };
    assert_eq!(state.to_bytes(), bytes, "every value has one form in bytes");
    let Ok(state) = decode_state(&encode_state(&state)) else {
        return;
    };
    let mut coordinator = Coordinator::new(state, CoordinatorSettings::default());
    let mut output = CoordinatorOutput::default();
    let mut now = ClockReading {
        monotonic_us: 1,
        wall_us: 0,
    };
    coordinator.start(now, &mut output);
    let join = CoordinatorRequest::Join {
        server: None,
        instance: 1,
        folder: FolderReport {
            disk: 1,
            ..FolderReport::default()
        },
        domain: "fuzz".into(),
        cores: vec!["localhost:1".into()],
    };
    let schema = coordinator.configuration().tables.iter().next();
    let mut schema = schema.map(|table| table.schema.clone());
    let requests = [
        Some(join),
        Some(CoordinatorRequest::Fetch { known: Epoch(0) }),
        Some(CoordinatorRequest::OpenSession),
        schema.as_mut().map(|schema| {
            schema.name.push('_');
            CoordinatorRequest::CreateTable {
                schema: schema.clone(),
                if_not_exists: false,
                sequences: Vec::new(),
                owner: Default::default(),
            }
        }),
    ];
    for (correlation, request) in (1..).zip(requests.into_iter().flatten()) {
        let input = CoordinatorInput::Request {
            from: RequesterId(1),
            correlation,
            request,
        };
        coordinator.step(now, input, &mut output);
        now.monotonic_us += 100_000;
    }
    now.monotonic_us += 20_000_000;
    coordinator.step(now, CoordinatorInput::Tick, &mut output);
    assert!(output.replies.len() >= 3, "every request was answered");
    let last = output
        .persist
        .expect("a join or a silent server is a change");
    assert_eq!(&last, coordinator.state());
}
