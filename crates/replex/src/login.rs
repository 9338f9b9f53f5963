//! The options for the logins of clients, of the store's front door and of the proxy.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pg_auth::admission::{CertificateUse, ClientAdmission, ClientAuthentication};
use pg_auth::identity::{self, ClientAuthorities};
use pg_auth::users::UserSecrets;

/// The rules for logins: users, and certificates.
#[derive(Args, Clone, Debug, Default)]
pub struct LoginArguments {
    /// The file of users that may log in: a line `"name" "password"` for each. In place of a
    /// password it may have a SCRAM verifier of PostgreSQL. SIGHUP reads this file and those of
    /// --tls-… again.
    #[arg(long, value_name = "FILE")]
    pub users: Option<PathBuf>,
    /// The certificate for clients, with its chain, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// The key of that certificate, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// The certificates of the authorities that sign clients' certificates, as PEM. With this
    /// option each client is asked for a certificate.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_client_ca: Option<PathBuf>,
    /// The revocation lists of these authorities, as PEM: one list of each authority, none expired.
    #[arg(long, value_name = "FILE", requires = "tls_client_ca")]
    pub tls_client_crl: Option<PathBuf>,
    /// The use of a client's certificate. Its common name must be the user's name.
    #[arg(long, value_enum, default_value_t, requires = "tls_client_ca")]
    pub tls_client_auth: ClientAuth,
}

/// The use of clients' certificates, named as in PostgreSQL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ClientAuth {
    /// Each client needs a certificate and the password.
    #[default]
    VerifyFull,
    /// Each client needs a certificate, and no password.
    Cert,
    /// A client needs a certificate or the password.
    CertOrPassword,
}

impl LoginArguments {
    /// Returns whether connections can be encrypted.
    pub fn can_encrypt(&self) -> bool {
        self.tls_certificate.is_some() && self.tls_key.is_some()
    }

    /// Returns how clients' certificates are used.
    pub fn certificates(&self) -> CertificateUse {
        match (&self.tls_client_ca, self.tls_client_auth) {
            (None, _) => CertificateUse::Unasked,
            (Some(_), ClientAuth::VerifyFull) => CertificateUse::Required,
            (Some(_), ClientAuth::Cert) => CertificateUse::Enough,
            (Some(_), ClientAuth::CertOrPassword) => CertificateUse::Instead,
        }
    }

    /// Returns whether some client can log in without a password, by a certificate.
    pub fn takes_certificates(&self) -> bool {
        matches!(
            self.certificates(),
            CertificateUse::Enough | CertificateUse::Instead
        )
    }

    /// Reads the users from their file; none without a file.
    ///
    /// # Errors
    /// The file cannot be read or is damaged. The message is for people, and has no secrets.
    pub fn read_users(&self) -> Result<UserSecrets, String> {
        match &self.users {
            Some(file) => UserSecrets::read(file),
            None => Ok(UserSecrets::default()),
        }
    }

    /// Reads the certificates from their files, and returns the rules for logins.
    ///
    /// # Errors
    /// A file cannot be read or is damaged. The message is for people.
    pub fn admission(
        &self,
        authentication: ClientAuthentication,
    ) -> Result<ClientAdmission, String> {
        let tls = match (&self.tls_certificate, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                let authorities = self.tls_client_ca.as_deref();
                let vouching = authorities.map(|authorities| ClientAuthorities {
                    authorities,
                    revoked: self.tls_client_crl.as_deref(),
                });
                Some(identity::identity(certificate, key, vouching)?)
            }
            _ => None,
        };
        Ok(ClientAdmission {
            authentication,
            tls,
            certificates: self.certificates(),
        })
    }
}
