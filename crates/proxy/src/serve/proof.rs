//! Authenticates clients: by a certificate, or by a password.

use std::io;

use bytes::{Buf, BytesMut};
use ring::rand::{SecureRandom, SystemRandom};

use super::login_failure::{LoginFailure, violation};
use super::{Admission, CertificateUse, ClientAuthentication};
use pg_connect::auth::certificate;
use pg_connect::auth::scram::{LoginRefusal, OfferedMechanisms, ScramVerifier};
use pg_connect::auth::users::UserSecrets;
use pg_connect::stream::BufferedStream;
use pg_wire::framing::HEADER_LEN;
use pg_wire::message::{self, split_string};
use pg_wire::report::{Report, Severity};
use proxy_pool::ServerLogin;

/// The longest message of a client that logs in, in bytes (`PG_MAX_AUTH_TOKEN_LENGTH`).
const MESSAGE_LEN_MAX: usize = 65_535;
/// An SQLSTATE.
pub(super) const INVALID_AUTHORIZATION: &str = "28000";
const INVALID_PASSWORD: &str = "28P01";

/// Authenticates a client as this user. Returns the login at its servers.
pub async fn ask(
    peer: &mut BufferedStream,
    admission: &Admission,
    user: &str,
) -> Result<ServerLogin, LoginFailure> {
    let is_enough = is_certificate_enough(peer, admission.certificates, user)?;
    let users = match &admission.authentication {
        ClientAuthentication::Trust(users) => return Ok(login(users, user)),
        ClientAuthentication::Scram(users) if is_enough => return Ok(login(users, user)),
        ClientAuthentication::Scram(users) => users,
    };
    let identity = admission.tls.as_ref().filter(|_| peer.is_encrypted());
    let offer = OfferedMechanisms {
        end_point: identity.and_then(|identity| identity.end_point.clone()),
    };
    password(peer, &offer, users, user).await?;
    Ok(login(users, user))
}

/// Returns whether the client has proved its identity by a certificate. Fails if it should have.
fn is_certificate_enough(
    peer: &BufferedStream,
    certificates: CertificateUse,
    user: &str,
) -> Result<bool, LoginFailure> {
    let name = peer.certificate().and_then(certificate::common_name);
    let is_named = name.as_deref() == Some(user);
    let is_local = peer.network().is_none();
    let (text, hint) = match (certificates, peer.certificate()) {
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
    let report = Report::new(Severity::Fatal, INVALID_AUTHORIZATION, text);
    Err(report.hint(hint).into())
}

fn login(users: &UserSecrets, user: &str) -> ServerLogin {
    ServerLogin {
        password: users.find(user).and_then(|user| user.password.clone()),
    }
}

/// Asks for a password by the offered mechanisms.
async fn password(
    peer: &mut BufferedStream,
    offer: &OfferedMechanisms,
    users: &UserSecrets,
    user: &str,
) -> Result<(), LoginFailure> {
    let refused = |refusal| refused(refusal, user);
    let names = offer.mechanisms().join("\0");
    say(peer, &[&10_u32.to_be_bytes(), names.as_bytes(), b"\0\0"]).await?;
    let body = answer(peer).await?;
    let malformed = || refused(LoginRefusal::Malformed);
    let (mechanism, rest) = split_string(&body).map_err(|_| malformed())?;
    let (length, first) = rest.split_first_chunk::<4>().ok_or_else(malformed)?;
    if u32::from_be_bytes(*length) as usize != first.len() {
        return Err(malformed());
    }
    let mut chance = [0; 18];
    let random = SystemRandom::new();
    let filled = random.fill(&mut chance);
    filled.expect("the system gives random bytes");
    // Whether a user exists shows only at the end, as a wrong password.
    let known = users.find(user);
    let verifier = match known {
        Some(user) => user.verifier.clone(),
        None => ScramVerifier::of_password(&format!("{chance:?}")),
    };
    let started = offer.start(mechanism, first, &chance, verifier);
    let (exchange, challenge) = started.map_err(refused)?;
    say(peer, &[&11_u32.to_be_bytes(), challenge.as_bytes()]).await?;
    let last = answer(peer).await?;
    let proof = exchange.finish(&last).map_err(refused)?;
    if known.is_none() {
        return Err(refused(LoginRefusal::Password));
    }
    say(peer, &[&12_u32.to_be_bytes(), proof.as_bytes()]).await?;
    Ok(())
}

/// Returns the error for the client, mostly as PostgreSQL words it.
fn refused(refusal: LoginRefusal, user: &str) -> LoginFailure {
    let (code, text, hint) = match refusal {
        LoginRefusal::Mechanism => {
            return violation("client selected an invalid SASL authentication mechanism");
        }
        LoginRefusal::Malformed => return violation("malformed SCRAM message"),
        LoginRefusal::Downgraded => (
            INVALID_AUTHORIZATION,
            "SCRAM channel binding negotiation error".to_owned(),
            "Channel binding was offered, and the offer was removed on its way to the client.",
        ),
        LoginRefusal::OtherEndPoint => (
            INVALID_AUTHORIZATION,
            "SCRAM channel binding check failed".to_owned(),
            "The client was shown another certificate than the proxy's.",
        ),
        LoginRefusal::Password => (
            INVALID_PASSWORD,
            format!("password authentication failed for user \"{user}\""),
            "",
        ),
    };
    Report::new(Severity::Fatal, code, text).hint(hint).into()
}

/// Sends an Authentication message of these parts.
async fn say(peer: &mut BufferedStream, parts: &[&[u8]]) -> io::Result<()> {
    let mut out = BytesMut::new();
    message::write(&mut out, b'R', parts, 0);
    peer.write_all(&out).await
}

/// Returns the body of the client's next message, which must be about its password.
async fn answer(peer: &mut BufferedStream) -> Result<BytesMut, LoginFailure> {
    loop {
        if let Some(header) = peer.input.first_chunk::<HEADER_LEN>() {
            let [tag, length @ ..] = *header;
            let length = u32::from_be_bytes(length) as usize;
            if tag != b'p' || !(4..=MESSAGE_LEN_MAX).contains(&length) {
                return Err(violation("expected a password response"));
            }
            if peer.input.len() > length {
                let mut message = peer.input.split_to(length + 1);
                message.advance(HEADER_LEN);
                return Ok(message);
            }
        }
        if peer.read().await? == 0 {
            return Err(LoginFailure::Gone);
        }
    }
}
