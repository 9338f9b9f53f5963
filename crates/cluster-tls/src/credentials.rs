//! The certificates of a process, read from its folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use tls_files::{certificates_of, key_of, provider, roots_of};

use crate::verifier::{OfCluster, cluster_name};

/// The files of a certificate in a folder of certificates, beside the authority's `ca.pem`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialFiles {
    /// `node.pem` and `node.key`, of a server or a coordinator.
    Node,
    /// `admin.pem` and `admin.key`, of a client that may do everything; or those of a node, if they
    /// are there instead.
    Admin,
}

impl CredentialFiles {
    fn paths(self, folder: &Path) -> (PathBuf, PathBuf) {
        let of = |name: &str| {
            let file = |ending: &str| folder.join(format!("{name}.{ending}"));
            (file("pem"), file("key"))
        };
        let admin = of("admin");
        match self {
            CredentialFiles::Admin if admin.0.exists() || !of("node").0.exists() => admin,
            CredentialFiles::Node | CredentialFiles::Admin => of("node"),
        }
    }
}

/// The certificates with which a process connects to others of its cluster, and takes connections.
#[derive(Clone, Debug)]
pub struct Credentials {
    connecting: Arc<ClientConfig>,
    accepting: Arc<ServerConfig>,
}

impl Credentials {
    /// Reads the certificate of a process, its key and the authority's certificate from a folder.
    ///
    /// # Errors
    /// A file is missing or damaged, or the key belongs to another certificate. The text is for
    /// people, and has no secrets.
    pub fn read(folder: &Path, files: CredentialFiles) -> Result<Credentials, String> {
        let authorities = folder.join("ca.pem");
        let (certificate, key) = files.paths(folder);
        let made = |error| format!("{error}; `replex cert` makes them");
        let roots = Arc::new(roots_of(&authorities).map_err(made)?);
        let chain = certificates_of(&certificate).map_err(made)?;
        let secret = key_of(&key).map_err(made)?;
        let unusable = |error: rustls::Error| {
            format!(
                "cannot use {} with {}: {error}",
                certificate.display(),
                key.display()
            )
        };
        let version = &[&rustls::version::TLS13];
        let no_authority = |error| format!("cannot use {}: {error}", authorities.display());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), provider()).build();
        let mut connecting = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(version)
            .map_err(unusable)?
            .with_webpki_verifier(verifier.map_err(no_authority)?)
            .with_client_auth_cert(chain.clone(), secret.clone_key())
            .map_err(unusable)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
        let verifier = OfCluster::new(verifier.map_err(no_authority)?);
        let mut accepting = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(version)
            .map_err(unusable)?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_single_cert(chain, secret)
            .map_err(unusable)?;
        // Connections last long: each of them proves everything again.
        connecting.resumption = Resumption::disabled();
        accepting.session_storage = Arc::new(NoServerSessionStorage {});
        accepting.send_tls13_tickets = 0;
        Ok(Credentials {
            connecting: Arc::new(connecting),
            accepting: Arc::new(accepting),
        })
    }

    /// Returns the state of a connection that this process opens.
    ///
    /// # Errors
    /// The TLS library refuses the certificates.
    pub fn connect(&self) -> Result<ClientConnection, rustls::Error> {
        ClientConnection::new(Arc::clone(&self.connecting), cluster_name())
    }

    /// Returns the state of a connection that another process has opened.
    ///
    /// # Errors
    /// The TLS library refuses the certificates.
    pub fn accept(&self) -> Result<ServerConnection, rustls::Error> {
        ServerConnection::new(Arc::clone(&self.accepting))
    }

    /// Returns the configuration for connections that this process opens.
    #[cfg(feature = "tokio")]
    pub(crate) fn connecting(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.connecting)
    }
}
