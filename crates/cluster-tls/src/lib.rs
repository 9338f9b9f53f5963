//! TLS between the processes of a cluster: servers, coordinators and native clients.
//!
//! Both sides of a connection prove who they are with certificates of one authority. A certificate
//! of the cluster has the name [`CLUSTER_NAME`], so that the certificate of a user of SQL, which
//! the same authority may have signed, opens nothing here. Addresses are not compared: a process
//! may move to another address with its certificate, and all processes are trusted alike.
//!
//! The crate knows nothing of frames and messages. Event loops and threads use the connections of
//! the TLS library; programs with tokio use [`stream`].

mod credentials;
#[cfg(feature = "tokio")]
pub mod stream;
mod verifier;

pub use credentials::{CredentialFiles, Credentials};
pub use rustls::{ClientConnection, Connection, Error, ServerConnection, StreamOwned};

/// The name in each certificate of a cluster. Certificates of users of SQL never have it.
pub const CLUSTER_NAME: &str = "cluster.replex.internal";

/// Returns an error of a connection for people, with the remedy where it is known.
pub fn explain(error: &std::io::Error) -> String {
    use rustls::{AlertDescription, CertificateError, InvalidMessage};
    let inner = error.get_ref().and_then(|it| it.downcast_ref::<Error>());
    let Some(inner) = inner else {
        return error.to_string();
    };
    match inner {
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the other side does not use TLS: give its process --certificates, too".into()
        }
        Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::DecryptError,
        ) => format!("the other side refuses the certificate of this process: {inner}"),
        // An authority of the same name has made the signature.
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => {
            "another authority has signed the certificate of the other side: use the ca.pem of its \
             cluster"
                .into()
        }
        other => format!("TLS failed: {other}"),
    }
}
