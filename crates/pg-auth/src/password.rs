//! The exchange about a client's password as a machine without I/O: it takes the bytes of a client
//! and returns the messages for it.
//!
//! ```text
//! Mechanism --the client's mechanism and first message--> Proof
//! Proof --a right proof--> Over        the client is logged in
//! any --another message, or a wrong one--> Over
//! ```
//!
//! Invariants: the machine holds no bytes of the client. A message that is longer than 65,535
//! bytes, or no password, is refused as soon as its head has arrived. Whether a user exists shows
//! neither in an answer nor in its time.

use bytes::{Buf, BytesMut};
use pg_wire::framing::HEADER_LEN;
use pg_wire::message::{self, split_string};
use pg_wire::report::{Report, Severity};
use ring::rand::{SecureRandom, SystemRandom};

use crate::scram::{LoginRefusal, OfferedMechanisms, ScramExchange, ScramVerifier};
use crate::users::UserSecrets;

/// SQLSTATE: the client is not the user that it names.
pub const INVALID_AUTHORIZATION: &str = "28000";
/// SQLSTATE: the password is wrong.
const INVALID_PASSWORD: &str = "28P01";
/// SQLSTATE: the client does not follow the protocol.
const PROTOCOL_VIOLATION: &str = "08P01";
/// The longest message of a client that logs in, in bytes (`PG_MAX_AUTH_TOKEN_LENGTH`).
const MESSAGE_LEN_MAX: usize = 65_535;

/// The exchange.
pub struct PasswordLogin {
    user: String,
    offer: OfferedMechanisms,
    verifier: ScramVerifier,
    is_known: bool,
    step: LoginStep,
}

enum LoginStep {
    /// The client chooses a mechanism.
    Mechanism,
    /// The client proves that it knows the password.
    Proof(ScramExchange),
    /// The client is logged in or refused.
    Over,
}

/// How a login goes on.
#[derive(Debug, PartialEq, Eq)]
pub enum LoginProgress {
    /// More bytes of the client are needed, after it has got the messages in the output.
    Waits,
    /// The client is logged in, once it has got the messages in the output.
    LoggedIn,
}

impl PasswordLogin {
    /// Begins an exchange. The client gets the mechanisms ([`PasswordLogin::offer`]).
    pub fn begin(users: &UserSecrets, user: &str, offer: OfferedMechanisms) -> PasswordLogin {
        let known = users.find(user).map(|known| known.verifier.clone());
        PasswordLogin::with_verifier(known, user, offer)
    }

    /// Begins an exchange with a user's verifier; none if there is no such user.
    pub fn with_verifier(
        known: Option<ScramVerifier>,
        user: &str,
        offer: OfferedMechanisms,
    ) -> PasswordLogin {
        let is_known = known.is_some();
        let verifier = known.unwrap_or_else(|| ScramVerifier::of_unknown(user));
        PasswordLogin {
            user: user.to_owned(),
            offer,
            verifier,
            is_known,
            step: LoginStep::Mechanism,
        }
    }

    /// Appends the first message: the mechanisms.
    pub fn offer(&self, output: &mut BytesMut) {
        let names = self.offer.mechanisms().join("\0");
        say(output, 10, &[names.as_bytes(), b"\0\0"]);
    }

    /// Takes the client's next message, if it has arrived, and appends the answer.
    ///
    /// # Errors
    /// The client is refused. The report is fatal.
    pub fn next(
        &mut self,
        input: &mut BytesMut,
        output: &mut BytesMut,
    ) -> Result<LoginProgress, Report> {
        let Some(body) = take(input)? else {
            return Ok(LoginProgress::Waits);
        };
        match std::mem::replace(&mut self.step, LoginStep::Over) {
            LoginStep::Mechanism => {
                let malformed = || self.refused(LoginRefusal::Malformed);
                let (mechanism, rest) = split_string(&body).map_err(|_| malformed())?;
                let (length, first) = rest.split_first_chunk::<4>().ok_or_else(malformed)?;
                if u32::from_be_bytes(*length) as usize != first.len() {
                    return Err(malformed());
                }
                let mut nonce = [0; 18];
                let filled = SystemRandom::new().fill(&mut nonce);
                filled.expect("the system gives random bytes");
                let verifier = self.verifier.clone();
                let started = self.offer.start(mechanism, first, &nonce, verifier);
                let (exchange, challenge) = started.map_err(|refusal| self.refused(refusal))?;
                say(output, 11, &[challenge.as_bytes()]);
                self.step = LoginStep::Proof(exchange);
                Ok(LoginProgress::Waits)
            }
            LoginStep::Proof(exchange) => {
                let proof = exchange.finish(&body);
                let proof = proof.map_err(|refusal| self.refused(refusal))?;
                if !self.is_known {
                    return Err(self.refused(LoginRefusal::Password));
                }
                say(output, 12, &[proof.as_bytes()]);
                Ok(LoginProgress::LoggedIn)
            }
            LoginStep::Over => Err(violation("the login is over")),
        }
    }

    /// Returns the error for the client, mostly as PostgreSQL words it.
    fn refused(&self, refusal: LoginRefusal) -> Report {
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
                "The client was shown another certificate than this server's.",
            ),
            LoginRefusal::Password => (
                INVALID_PASSWORD,
                format!("password authentication failed for user \"{}\"", self.user),
                "",
            ),
        };
        Report::new(Severity::Fatal, code, text).hint(hint)
    }
}

/// Appends an Authentication message of this kind.
fn say(output: &mut BytesMut, kind: u32, parts: &[&[u8]]) {
    let kind = kind.to_be_bytes();
    let parts: Vec<&[u8]> = [&kind[..]]
        .into_iter()
        .chain(parts.iter().copied())
        .collect();
    message::write(output, b'R', &parts, 0);
}

/// Takes the body of the client's next message, which must be about its password; none if it has
/// not arrived whole.
fn take(input: &mut BytesMut) -> Result<Option<BytesMut>, Report> {
    if input.first().is_some_and(|tag| *tag != b'p') {
        return Err(violation("expected a password response"));
    }
    let Some(header) = input.first_chunk::<HEADER_LEN>() else {
        return Ok(None);
    };
    let [_, length @ ..] = *header;
    let length = u32::from_be_bytes(length) as usize;
    if !(4..=MESSAGE_LEN_MAX).contains(&length) {
        return Err(violation("expected a password response"));
    }
    if input.len() <= length {
        return Ok(None);
    }
    let mut message = input.split_to(length + 1);
    message.advance(HEADER_LEN);
    Ok(Some(message))
}

fn violation(text: &str) -> Report {
    Report::new(Severity::Fatal, PROTOCOL_VIOLATION, text)
}

#[cfg(test)]
mod tests;
