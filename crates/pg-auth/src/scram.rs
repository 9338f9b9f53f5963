//! The server's side of SCRAM-SHA-256 (RFC 5802, 7677), as PostgreSQL implements it.
//!
//! SCRAM-SHA-256-PLUS ties a login to the TLS connection that it runs in: the client proves which
//! certificate it was shown, too. An attacker in between with a certificate of their own is
//! refused, also if they hide from the client that it was offered.

use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::SystemRandom;
use ring::{digest, hmac};

/// The SCRAM mechanism without channel binding.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// The SCRAM mechanism with channel binding.
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// The salt's length in bytes and the iterations of PostgreSQL's verifiers, by default.
const SALT_LEN: usize = 16;
const ITERATIONS: u32 = 4096;

/// The only kind of channel binding that PostgreSQL knows.
const BOUND_HEADER: &str = "p=tls-server-end-point,,";

/// Verifies a password without containing it.
#[derive(Clone)]
pub struct ScramVerifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl ScramVerifier {
    /// Returns a verifier for a password, with a new salt.
    pub fn of_password(password: &str) -> ScramVerifier {
        let text = ScramVerifier::text_of_password(password);
        ScramVerifier::parse(&text).expect("the library writes PostgreSQL's format")
    }

    /// Returns the text of a verifier for a password, with a new salt, as PostgreSQL stores it.
    pub fn text_of_password(password: &str) -> String {
        postgres_protocol::password::scram_sha_256(password.as_bytes())
    }

    /// Returns a verifier that no password fits, for a user that does not exist. The user gets the
    /// same salt each time while the process runs, as a user that exists.
    pub fn of_unknown(user: &str) -> ScramVerifier {
        static SECRET: OnceLock<hmac::Key> = OnceLock::new();
        let secret = SECRET.get_or_init(|| {
            let generated = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
            generated.expect("the system gives random bytes")
        });
        let derived = |purpose: &str| {
            let tag = hmac::sign(secret, format!("{purpose} {user}").as_bytes());
            tag.as_ref().to_vec()
        };
        let mut salt = derived("salt");
        salt.truncate(SALT_LEN);
        ScramVerifier {
            iterations: ITERATIONS,
            salt,
            stored_key: derived("stored key"),
            server_key: derived("server key"),
        }
    }

    /// Parses `SCRAM-SHA-256$iterations:salt$stored key:server key`. Returns none if the string has
    /// another form.
    pub fn parse(text: &str) -> Option<ScramVerifier> {
        let (numbers, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let (iterations, salt) = numbers.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let verifier = ScramVerifier {
            iterations: iterations.parse().ok()?,
            salt: BASE64.decode(salt).ok()?,
            stored_key: BASE64.decode(stored_key).ok()?,
            server_key: BASE64.decode(server_key).ok()?,
        };
        let lengths = [verifier.stored_key.len(), verifier.server_key.len()];
        (lengths == [digest::SHA256_OUTPUT_LEN; 2]).then_some(verifier)
    }
}

/// The mechanisms that the server offers a client.
#[derive(Clone, Debug, Default)]
pub struct OfferedMechanisms {
    /// The channel binding of the login to its TLS connection, see
    /// [`end_point`](crate::certificate::end_point).
    pub end_point: Option<Vec<u8>>,
}

/// The reason why a login is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginRefusal {
    /// The client chose a mechanism that was not offered.
    Mechanism,
    /// A message is invalid.
    Malformed,
    /// The client supports channel binding, but was offered none: the offer was changed on the way.
    Downgraded,
    /// The client saw another certificate.
    OtherEndPoint,
    /// The client does not know the password.
    Password,
}

impl OfferedMechanisms {
    /// Returns the names of the mechanisms, the best first.
    pub fn mechanisms(&self) -> &'static [&'static str] {
        match self.end_point {
            Some(_) => &[MECHANISM_PLUS, MECHANISM],
            None => &[MECHANISM],
        }
    }

    /// Handles the client's mechanism and its first message. `nonce` is 18 random bytes. Returns
    /// the answer with the exchange.
    pub fn start(
        &self,
        mechanism: &[u8],
        first: &[u8],
        nonce: &[u8],
        verifier: ScramVerifier,
    ) -> Result<(ScramExchange, String), LoginRefusal> {
        let mut mechanisms = self.mechanisms().iter();
        let mechanism = mechanisms.find(|name| name.as_bytes() == mechanism);
        let mechanism = *mechanism.ok_or(LoginRefusal::Mechanism)?;
        let first = str::from_utf8(first).map_err(|_| LoginRefusal::Malformed)?;
        let bare_at = first
            .match_indices(',')
            .nth(1)
            .ok_or(LoginRefusal::Malformed)?
            .0
            + 1;
        let (header, bare) = first.split_at(bare_at);
        let end_point: &[u8] = match (mechanism, header, &self.end_point) {
            (MECHANISM_PLUS, BOUND_HEADER, Some(end_point)) => end_point,
            (MECHANISM, "y,,", Some(_)) => return Err(LoginRefusal::Downgraded),
            (MECHANISM, "n,,", _) | (MECHANISM, "y,,", None) => &[],
            _ => return Err(LoginRefusal::Malformed),
        };
        let client_nonce = bare.split(',').find_map(|part| part.strip_prefix("r="));
        let client_nonce = client_nonce.ok_or(LoginRefusal::Malformed)?;
        let nonce = format!("{client_nonce}{}", BASE64.encode(nonce));
        let answer = format!(
            "r={nonce},s={},i={}",
            BASE64.encode(&verifier.salt),
            verifier.iterations
        );
        let exchange = ScramExchange {
            binding: BASE64.encode([header.as_bytes(), end_point].concat()),
            is_bound: mechanism == MECHANISM_PLUS,
            signed: format!("{bare},{answer}"),
            nonce,
            verifier,
        };
        Ok((exchange, answer))
    }
}

/// An exchange after the client's first message.
pub struct ScramExchange {
    verifier: ScramVerifier,
    /// The client's channel binding header, which it must repeat, and the bound data.
    binding: String,
    is_bound: bool,
    nonce: String,
    /// Both first messages, as they are signed.
    signed: String,
}

impl ScramExchange {
    /// Handles the client's last message. Returns the server's own proof.
    pub fn finish(self, last: &[u8]) -> Result<String, LoginRefusal> {
        let last = str::from_utf8(last).map_err(|_| LoginRefusal::Malformed)?;
        let (without_proof, proof) = last.rsplit_once(",p=").ok_or(LoginRefusal::Malformed)?;
        let received = without_proof.strip_prefix("c=");
        let received = received.and_then(|received| received.split_once(",r="));
        let (binding, nonce) = received.ok_or(LoginRefusal::Malformed)?;
        if binding != self.binding && self.is_bound {
            return Err(LoginRefusal::OtherEndPoint);
        }
        let proof = BASE64.decode(proof).map_err(|_| LoginRefusal::Malformed)?;
        if binding != self.binding
            || nonce != self.nonce
            || proof.len() != digest::SHA256_OUTPUT_LEN
        {
            return Err(LoginRefusal::Malformed);
        }
        let signed = format!("{},{without_proof}", self.signed);
        let sign = |key: &[u8]| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, key);
            hmac::sign(&key, signed.as_bytes())
        };
        let signature = sign(&self.verifier.stored_key);
        let pairs = proof.iter().zip(signature.as_ref());
        let client_key: Vec<u8> = pairs.map(|(proof, sign)| proof ^ sign).collect();
        // The comparison is of hashes, so that its time reveals nothing.
        if digest::digest(&digest::SHA256, &client_key).as_ref() != self.verifier.stored_key {
            return Err(LoginRefusal::Password);
        }
        let proof = sign(&self.verifier.server_key);
        Ok(format!("v={}", BASE64.encode(proof)))
    }
}

#[cfg(test)]
mod tests {
    use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};

    use super::*;

    /// Returns the result of a login with the password `given` where it is `known`, by the best
    /// mechanism that `binding` allows.
    fn log_in(
        offer: &OfferedMechanisms,
        binding: ChannelBinding,
        known: &str,
        given: &str,
    ) -> Result<(), LoginRefusal> {
        let mut client = ScramSha256::new(given.as_bytes(), binding);
        let mechanism = match client.message().starts_with(b"p=") {
            true => MECHANISM_PLUS,
            false => MECHANISM,
        };
        let verifier = ScramVerifier::of_password(known);
        let (mechanism, first) = (mechanism.as_bytes(), client.message());
        let (exchange, answer) = offer.start(mechanism, first, &[7; 18], verifier)?;
        client.update(answer.as_bytes()).unwrap();
        let proof = exchange.finish(client.message())?;
        client.finish(proof.as_bytes()).unwrap();
        Ok(())
    }

    fn bound_to(hash: u8) -> ChannelBinding {
        ChannelBinding::tls_server_end_point(vec![hash; 32])
    }

    fn offer(hash: u8) -> OfferedMechanisms {
        OfferedMechanisms {
            end_point: Some(vec![hash; 32]),
        }
    }

    #[test]
    fn only_the_right_password_logs_in() {
        let offers = [OfferedMechanisms::default(), offer(1)];
        for offer in &offers {
            let log_in = |known, given| log_in(offer, ChannelBinding::unsupported(), known, given);
            assert_eq!(log_in("correct horse", "correct horse"), Ok(()));
            assert_eq!(
                log_in("correct horse", "correct"),
                Err(LoginRefusal::Password)
            );
            assert_eq!(log_in("x", ""), Err(LoginRefusal::Password));
        }
        let bound = log_in(&offer(1), bound_to(1), "x", "y");
        assert_eq!(bound, Err(LoginRefusal::Password));
    }

    #[test]
    fn an_unknown_user_looks_like_a_known_one() {
        let known = ScramVerifier::of_password("x");
        let [unknown, again, other] = ["eve", "eve", "mallory"].map(ScramVerifier::of_unknown);
        assert_eq!(unknown.iterations, known.iterations);
        assert_eq!(unknown.salt.len(), known.salt.len());
        assert_eq!(unknown.salt, again.salt);
        assert_ne!(unknown.salt, other.salt);
    }

    #[test]
    fn login_is_tied_to_the_certificate_that_was_shown() {
        assert_eq!(log_in(&offer(1), bound_to(1), "x", "x"), Ok(()));
        let other = log_in(&offer(1), bound_to(2), "x", "x");
        assert_eq!(other, Err(LoginRefusal::OtherEndPoint));
        // It was not offered.
        let unasked = log_in(&OfferedMechanisms::default(), bound_to(1), "x", "x");
        assert_eq!(unasked, Err(LoginRefusal::Mechanism));
    }

    /// An attacker in between reports to a client that could tie its login that the server cannot.
    #[test]
    fn hidden_offer_is_noticed() {
        let could = ChannelBinding::unrequested;
        let hidden = log_in(&offer(1), could(), "x", "x");
        assert_eq!(hidden, Err(LoginRefusal::Downgraded));
        assert_eq!(
            log_in(&OfferedMechanisms::default(), could(), "x", "x"),
            Ok(())
        );
    }

    #[test]
    fn invalid_messages_are_refused() {
        let verifier = ScramVerifier::of_password("x");
        let start = |mechanism: &str, first: &str| {
            let (mechanism, first) = (mechanism.as_bytes(), first.as_bytes());
            let started = offer(1).start(mechanism, first, b"", verifier.clone());
            started.map(|(exchange, _)| exchange)
        };
        for (mechanism, first) in [
            (MECHANISM, ""),
            (MECHANISM, "n,,"),
            (MECHANISM, "n,"),
            (MECHANISM, "x,,n=,r=x"),
            (MECHANISM, "n,,n=a"),
            (MECHANISM, "n,a=eve,n=,r=x"),
            // The channel binding does not match the chosen mechanism.
            (MECHANISM, "p=tls-server-end-point,,n=,r=x"),
            (MECHANISM_PLUS, "n,,n=,r=x"),
            (MECHANISM_PLUS, "y,,n=,r=x"),
            (MECHANISM_PLUS, "p=tls-unique,,n=,r=x"),
        ] {
            let started = start(mechanism, first).err();
            assert_eq!(started, Some(LoginRefusal::Malformed), "{first}");
        }
        for mechanism in ["", "SCRAM-SHA-1", "SCRAM-SHA-256-PLUS-X"] {
            let started = start(mechanism, "n,,n=,r=x").err();
            assert_eq!(started, Some(LoginRefusal::Mechanism), "{mechanism}");
        }
        for last in [
            "",
            "c=biws,r=abc",
            "c=biws,r=abc,p=",
            "c=biws,r=abc,p=AAAA",
            "c=eSws,r=abc,p=AAAA",
            "r=abc,p=AAAA",
        ] {
            let exchange = start(MECHANISM, "n,,n=,r=abc").unwrap_or_else(|_| panic!("{last}"));
            let finished = exchange.finish(last.as_bytes());
            assert_eq!(finished, Err(LoginRefusal::Malformed), "{last}");
        }
    }
}
