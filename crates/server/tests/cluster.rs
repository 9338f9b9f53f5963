//! Cores and a coordinator over real sockets on loopback: rows go in at one end and are found by
//! every index at the other.
#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

mod support;

use placement::{Durability, Value};
use protocol::operation::RequestResult;
use support::{Cluster, Teller};

#[test]
fn a_row_is_found_by_each_of_its_keys() {
    for durability in [Durability::Replicated, Durability::Sync] {
        let cluster = Cluster::start(3);
        let mut teller = Teller::new(cluster.coordinator.address);
        teller.create(support::people(durability));
        for id in 0..50 {
            let result = teller.insert(id, &format!("name {id}"), &format!("city {}", id % 5));
            assert!(
                matches!(result, RequestResult::Applied { .. }),
                "{result:?}"
            );
        }
        let duplicate = teller.insert(99, "name 7", "nowhere");
        assert!(
            matches!(duplicate, RequestResult::Duplicate { replex: 1, .. }),
            "{duplicate:?}"
        );
        for id in 0..50 {
            assert_eq!(teller.lookup(0, Value::Int64(id)).count, 1);
            assert_eq!(teller.lookup(1, Value::Text(format!("name {id}"))).count, 1);
        }
        for city in 0..5 {
            let page = teller.lookup(2, Value::Text(format!("city {city}")));
            assert_eq!((page.count, page.rows().count()), (10, 10));
        }
        assert_eq!(teller.lookup(2, Value::Text("nowhere".into())).count, 0);
        for server in cluster.servers {
            server.stop().unwrap();
        }
        cluster.coordinator.stop().unwrap();
    }
}
