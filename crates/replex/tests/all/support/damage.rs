//! Damages partitions on purpose, in the logs of servers that are stopped.

use protocol::codec::Wire;
use protocol::identity::PartitionId;
use protocol::record::Record;
use replex::cluster::Cluster;
use server::folder::DataFolder;
use server::identity_file::ServerIdentity;
use storage::log::FlushTiming;
use storage::{DurableStore, StoreOptions};

/// Stops the server that holds a partition, appends a record to the log of the partition's core,
/// and starts the server again.
pub async fn append(cluster: &mut Cluster, partition: PartitionId, record: &Record) {
    let configuration = cluster.configuration().await.unwrap();
    let place = configuration.place(partition).unwrap();
    let position = place.core.server.0 as usize - 1;
    cluster.stop(position).await.unwrap();
    let folder = cluster.server_folder(position);
    let disk = {
        let folder = DataFolder::open(&folder).unwrap();
        ServerIdentity::read(&folder).unwrap().unwrap().disk
    };
    let options = StoreOptions {
        create: false,
        ..StoreOptions::default()
    };
    let core = folder.join(format!("core-{}", place.core.core));
    let (mut store, recovery) = DurableStore::open(&core, disk, options, || {}).unwrap();
    recovery.log.replay(&mut |_| Ok(())).unwrap();
    let epoch = configuration.epoch.0;
    let at = store
        .log
        .append(epoch, &record.to_bytes(), FlushTiming::Now)
        .unwrap();
    store.submit();
    while store.log.durable() < at {
        store.health().unwrap();
        std::thread::yield_now();
    }
    drop(store);
    cluster.restart(position).await.unwrap();
    cluster.wait_until_serving().await.unwrap();
}
