//! Accepts clients and serves each in a task of its own.

use std::sync::Arc;
use std::time::Duration;

use pg_auth::admission::ClientAdmission;
use sql::{Store, now_us};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::cancel::SessionCancels;
use crate::catalogue::SharedCatalogue;
use crate::connection;
use crate::context::{ServerContext, ServerJournal, ServerLimits};
use crate::roles;

/// The most sockets beyond the clients that have logged in: for logins, and for requests to cancel.
const SOCKETS_BESIDE: usize = 100;
/// How long to wait after a failure to accept a client, because the process has no descriptor left.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// How long running statements may take to end when the server is stopped.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// A server of PostgreSQL's protocol over a store. Sessions share the store.
#[derive(Debug)]
pub struct SqlServer<S>(Arc<ServerContext<S>>);

impl<S: Store + Clone + Send + Sync + 'static> SqlServer<S> {
    /// Returns a server that does not listen yet. `release` is the version of this program.
    pub fn new(
        store: S,
        limits: ServerLimits,
        admission: watch::Receiver<Arc<ClientAdmission>>,
        journal: ServerJournal,
        release: &str,
    ) -> SqlServer<S> {
        let catalogue = SharedCatalogue::new(admission.clone(), now_us());
        SqlServer(Arc::new(ServerContext {
            store,
            limits,
            admission,
            journal,
            release: release.to_owned(),
            cancels: SessionCancels::default(),
            catalogue: Arc::new(catalogue),
            places: Arc::new(Semaphore::new(limits.connections)),
        }))
    }

    /// Serves clients until `stop` is true. Then idle clients get an error, and the statements that
    /// run have some seconds to end.
    pub async fn run(self, listener: TcpListener, mut stop: watch::Receiver<bool>) {
        let sockets = Arc::new(Semaphore::new(self.0.limits.connections + SOCKETS_BESIDE));
        let mut clients = JoinSet::new();
        // Dropped with this function.
        let follows = roles::follow(self.0.store.clone());
        let mut follows = std::pin::pin!(follows);
        loop {
            let accepted = async {
                let socket = Arc::clone(&sockets).acquire_owned().await;
                let permit = socket.expect("the semaphore is never closed");
                (listener.accept().await, permit)
            };
            let (accepted, permit) = tokio::select! {
                accepted = accepted => accepted,
                _ = stop.wait_for(|is_over| *is_over) => break,
                Some(_) = clients.join_next() => continue,
                () = &mut follows => unreachable!("it never ends"),
            };
            let Ok((socket, address)) = accepted else {
                tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                continue;
            };
            // Only a hint to the system.
            let _ = socket.set_nodelay(true);
            let (context, stop) = (Arc::clone(&self.0), stop.clone());
            clients.spawn(async move {
                // A client that is gone cannot get an answer.
                let _ = connection::serve(context, (socket, address.ip()), stop).await;
                drop(permit);
            });
        }
        drop(listener);
        let ended = async { while clients.join_next().await.is_some() {} };
        // Clients whose statements take longer are disconnected.
        let _ = tokio::time::timeout(STOP_WITHIN, ended).await;
    }
}
