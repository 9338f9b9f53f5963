//! The rules for the logins of clients: who may log in, and by what.

use pg_wire::report::{Report, Severity};
use rustls::pki_types::CertificateDer;

use crate::certificate;
use crate::identity::TlsIdentity;
use crate::password::{INVALID_AUTHORIZATION, PasswordLogin};
use crate::scram::{OfferedMechanisms, ScramVerifier};
use crate::users::UserSecrets;

/// How clients prove that they are the users that they name.
#[derive(Debug)]
pub enum ClientAuthentication {
    /// By the password of one of these users (SCRAM-SHA-256).
    Scram(UserSecrets),
    /// Not at all. A server that logs in to others for its clients has the passwords of these
    /// users.
    Trust(UserSecrets),
}

/// How a server uses clients' certificates. A valid certificate has the user's name as its common
/// name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CertificateUse {
    /// It requests none.
    #[default]
    Unasked,
    /// Every client needs a valid certificate, and must also authenticate as without one.
    Required,
    /// Every client needs a valid certificate, and nothing else.
    Enough,
    /// A client with a valid certificate needs nothing else. Others must authenticate as without
    /// one.
    Instead,
}

/// The rules for logins.
#[derive(Debug)]
pub struct ClientAdmission {
    /// The users that may log in, and their passwords.
    pub authentication: ClientAuthentication,
    /// The server's certificate. Without it, connections are not encrypted.
    pub tls: Option<TlsIdentity>,
    /// How the server uses clients' certificates. It does not apply to clients of this machine
    /// whose connection is not of a network ([`ClientOrigin::Local`]).
    pub certificates: CertificateUse,
}

/// The password of a user that a server knows beside the files of users.
#[derive(Default)]
pub struct RoleSecret {
    /// The verifier of the user's password. It counts instead of that of a file.
    pub verifier: Option<ScramVerifier>,
    /// Whether each client needs a password, although there is no file of users.
    pub is_demanded: bool,
}

/// The other end of a client's connection.
#[derive(Clone, Copy, Debug)]
pub enum ClientOrigin<'a> {
    /// A Unix socket.
    Local,
    /// TCP without TLS.
    Plain,
    /// TCP with TLS, and the client's certificate, which one of the authorities has signed.
    Encrypted(Option<&'a CertificateDer<'static>>),
}

impl ClientAdmission {
    /// Returns the rules by which any client logs in as any user, without encryption.
    pub fn open() -> ClientAdmission {
        ClientAdmission {
            authentication: ClientAuthentication::Trust(UserSecrets::default()),
            tls: None,
            certificates: CertificateUse::Unasked,
        }
    }

    /// Returns the known users.
    pub fn users(&self) -> &UserSecrets {
        match &self.authentication {
            ClientAuthentication::Scram(users) | ClientAuthentication::Trust(users) => users,
        }
    }

    /// Begins the login of a client as this user. Returns the exchange about its password; none if
    /// the client is logged in without one.
    ///
    /// # Errors
    /// The client should have proved its identity by a certificate.
    pub fn begin(
        &self,
        user: &str,
        origin: ClientOrigin<'_>,
    ) -> Result<Option<PasswordLogin>, Report> {
        self.begin_as(user, origin, RoleSecret::default())
    }

    /// Begins the login of a client as this user, for whom the server itself may have a password.
    /// Returns the exchange about the password; none if the client is logged in without one.
    ///
    /// # Errors
    /// The client should have proved its identity by a certificate.
    pub fn begin_as(
        &self,
        user: &str,
        origin: ClientOrigin<'_>,
        secret: RoleSecret,
    ) -> Result<Option<PasswordLogin>, Report> {
        let is_enough = is_certificate_enough(self.certificates, user, origin)?;
        let users = match &self.authentication {
            ClientAuthentication::Trust(users) if secret.is_demanded => users,
            ClientAuthentication::Trust(_) => return Ok(None),
            ClientAuthentication::Scram(_) if is_enough => return Ok(None),
            ClientAuthentication::Scram(users) => users,
        };
        let is_encrypted = matches!(origin, ClientOrigin::Encrypted(_));
        let identity = self.tls.as_ref().filter(|_| is_encrypted);
        let offer = OfferedMechanisms {
            end_point: identity.and_then(|identity| identity.end_point.clone()),
        };
        let known = users.find(user).map(|known| known.verifier.clone());
        let verifier = secret.verifier.or(known);
        Ok(Some(PasswordLogin::with_verifier(verifier, user, offer)))
    }
}

/// Returns whether the client has proved its identity by a certificate. Fails if it should have.
fn is_certificate_enough(
    certificates: CertificateUse,
    user: &str,
    origin: ClientOrigin<'_>,
) -> Result<bool, Report> {
    let certificate = match origin {
        ClientOrigin::Encrypted(certificate) => certificate,
        ClientOrigin::Local | ClientOrigin::Plain => None,
    };
    let is_local = matches!(origin, ClientOrigin::Local);
    let name = certificate.and_then(certificate::common_name);
    let is_named = name.as_deref() == Some(user);
    let (text, hint) = match (certificates, certificate) {
        (CertificateUse::Unasked, _) => return Ok(false),
        (CertificateUse::Required, Some(_)) if is_named => return Ok(false),
        (CertificateUse::Enough | CertificateUse::Instead, Some(_)) if is_named => return Ok(true),
        (CertificateUse::Instead, _) => return Ok(false),
        (_, None) if is_local => return Ok(false),
        (_, None) => (
            "connection requires a valid client certificate".to_owned(),
            "Connect with TLS, and present a certificate that an authority of --tls-client-ca has signed.",
        ),
        (_, Some(_)) => (
            format!("certificate authentication failed for user \"{user}\""),
            "The certificate's common name must be the user's name.",
        ),
    };
    Err(Report::new(Severity::Fatal, INVALID_AUTHORIZATION, text).hint(hint))
}
