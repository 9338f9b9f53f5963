//! Connections of programs with tokio, encrypted or not.

use std::io::{self, ErrorKind};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use crate::verifier::cluster_name;
use crate::{Credentials, explain};

/// An encrypted connection.
pub type Encrypted = Box<TlsStream<TcpStream>>;

/// A connection, without or with TLS.
pub type ClusterStream = Either<TcpStream, Encrypted>;

/// Begins TLS on a connection that this program has opened, if it has credentials. Returns once
/// the other side has proved that it belongs to the cluster.
///
/// # Errors
/// The other side has no valid certificate, refuses this program's, or does not use TLS. The error
/// tells what to do.
pub async fn secure(
    stream: TcpStream,
    credentials: Option<&Credentials>,
) -> io::Result<ClusterStream> {
    let Some(credentials) = credentials else {
        return Ok(Either::Left(stream));
    };
    let connector = TlsConnector::from(credentials.connecting());
    match connector.connect(cluster_name(), stream).await {
        Ok(stream) => Ok(Either::Right(Box::new(stream))),
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            Err(io::Error::new(ErrorKind::InvalidData, explain(&error)))
        }
        Err(error) => Err(error),
    }
}
