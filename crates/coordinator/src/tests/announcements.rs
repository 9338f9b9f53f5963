//! New epochs are announced to cores that do not know them.

use super::*;

/// Returns the connections on which the present epoch was announced since the last call, in order.
fn announced(scene: &mut Scene) -> Vec<u64> {
    let epoch = Epoch(scene.epoch());
    let announced = scene.announced.drain(..);
    announced
        .map(|(to, of)| {
            assert_eq!(of, epoch, "an epoch that is not the newest any more");
            to.0
        })
        .collect()
}

#[test]
fn every_core_with_heartbeats_receives_a_new_epoch_once() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.join(2);
    scene.announced.clear();
    scene.beat_on(11, (1, 0));
    scene.beat_on(12, (1, 1));
    scene.beat_on(21, (2, 0));
    assert_eq!(announced(&mut scene), [] as [u64; 0]);
    assert_eq!(scene.ask_from(CLIENT, create("flights", 1)), None);
    assert_eq!(announced(&mut scene), [11, 12, 21]);
    scene.wait_ms(100);
    scene.beat_on(11, (1, 0));
    assert_eq!(announced(&mut scene), [] as [u64; 0]);
}

#[test]
fn a_client_without_a_newer_configuration_receives_the_next_epoch_once() {
    let mut scene = Scene::new();
    scene.join(1);
    let known = Epoch(scene.epoch());
    scene.announced.clear();
    let fetch =
        |scene: &mut Scene, from: u64, known: Epoch| scene.ask_from(from, Request::Fetch { known });
    let unchanged = Some(Reply::Unchanged { epoch: known });
    assert_eq!(fetch(&mut scene, 31, known), unchanged);
    assert_eq!(fetch(&mut scene, 31, known), unchanged);
    assert_eq!(fetch(&mut scene, 32, known), unchanged);
    // It gets a configuration, and waits for none.
    assert_ne!(fetch(&mut scene, 33, Epoch(0)), unchanged);
    scene.step(CoordinatorInput::Gone {
        from: RequesterId(32),
    });
    scene.join(2);
    assert_eq!(announced(&mut scene), [31]);
    scene.join(3);
    assert_eq!(announced(&mut scene), [] as [u64; 0]);
}

#[test]
fn closed_connections_and_down_servers_receive_nothing() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.join(2);
    scene.beat_on(11, (1, 0));
    scene.beat_on(21, (2, 0));
    scene.announced.clear();
    scene.step(CoordinatorInput::Gone {
        from: RequesterId(11),
    });
    scene.join(3);
    assert_eq!(announced(&mut scene), [21]);
    // It is back on another connection.
    scene.beat_on(15, (1, 0));
    scene.join(4);
    assert_eq!(announced(&mut scene), [15, 21]);
    let request = Request::Stopped {
        server: ServerId(2),
        incarnation: Incarnation(1),
        logs: Vec::new(),
    };
    scene.ask(request);
    assert_eq!(announced(&mut scene), [15]);
}

#[test]
fn core_whose_heartbeat_makes_an_epoch_receives_it_with_the_answer() {
    let mut scene = Scene::new();
    scene.join(1);
    scene.join(2);
    scene.beat_on(11, (1, 0));
    scene.beat_on(21, (2, 0));
    for _ in 0..8 {
        scene.wait_ms(200);
        scene.beat_on(11, (1, 0));
    }
    assert_eq!(scene.server(2).state, ServerState::Down);
    scene.announced.clear();
    scene.beat_on(22, (2, 0));
    assert_eq!(scene.server(2).state, ServerState::Up);
    assert_eq!(announced(&mut scene), [11]);
}
