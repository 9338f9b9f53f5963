//! SCRAM-SHA-256 (RFC 5802, 7677), the server's side, as PostgreSQL speaks it. No channel binding
//! is offered to clients.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::{digest, hmac};

/// The name of the mechanism.
pub const MECHANISM: &str = "SCRAM-SHA-256";

/// What proves a password without containing it.
#[derive(Clone)]
pub struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: Vec<u8>,
    server_key: Vec<u8>,
}

impl Verifier {
    /// From a password, with a salt of its own.
    pub fn of_password(password: &str) -> Verifier {
        let text = postgres_protocol::password::scram_sha_256(password.as_bytes());
        Verifier::parse(&text).expect("the library writes PostgreSQL's format")
    }

    /// From `SCRAM-SHA-256$iterations:salt$stored key:server key`; none if it is something else.
    pub fn parse(text: &str) -> Option<Verifier> {
        let (numbers, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let (iterations, salt) = numbers.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let verifier = Verifier {
            iterations: iterations.parse().ok()?,
            salt: BASE64.decode(salt).ok()?,
            stored_key: BASE64.decode(stored_key).ok()?,
            server_key: BASE64.decode(server_key).ok()?,
        };
        let lengths = [verifier.stored_key.len(), verifier.server_key.len()];
        (lengths == [digest::SHA256_OUTPUT_LEN; 2]).then_some(verifier)
    }
}

/// An exchange in which the client has said its first word.
pub struct Exchange {
    verifier: Verifier,
    /// The client's channel binding header, which it must repeat.
    header: String,
    nonce: String,
    /// Both first messages, as they are signed.
    signed: String,
}

impl Exchange {
    /// Reads the client's first message; `nonce` is 18 bytes of chance. Returns the answer, too.
    /// None if the message is invalid.
    pub fn start(first: &[u8], nonce: &[u8], verifier: Verifier) -> Option<(Exchange, String)> {
        let first = str::from_utf8(first).ok()?;
        let bare_at = first.match_indices(',').nth(1)?.0 + 1;
        let (header, bare) = first.split_at(bare_at);
        if !matches!(header.as_bytes()[0], b'n' | b'y') {
            return None;
        }
        let client_nonce = bare.split(',').find_map(|part| part.strip_prefix("r="))?;
        let nonce = format!("{client_nonce}{}", BASE64.encode(nonce));
        let answer = format!(
            "r={nonce},s={},i={}",
            BASE64.encode(&verifier.salt),
            verifier.iterations
        );
        let exchange = Exchange {
            header: header.to_string(),
            signed: format!("{bare},{answer}"),
            nonce,
            verifier,
        };
        Some((exchange, answer))
    }

    /// Reads the client's last message. Returns the server's own proof, or none if the client does
    /// not know the password.
    pub fn finish(self, last: &[u8]) -> Option<String> {
        let last = str::from_utf8(last).ok()?;
        let (without_proof, proof) = last.rsplit_once(",p=")?;
        let expected = format!("c={},r={}", BASE64.encode(&self.header), self.nonce);
        let proof = BASE64.decode(proof).ok()?;
        if without_proof != expected || proof.len() != digest::SHA256_OUTPUT_LEN {
            return None;
        }
        let signed = format!("{},{without_proof}", self.signed);
        let sign = |key: &[u8]| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, key);
            hmac::sign(&key, signed.as_bytes())
        };
        let signature = sign(&self.verifier.stored_key);
        let pairs = proof.iter().zip(signature.as_ref());
        let client_key: Vec<u8> = pairs.map(|(proof, sign)| proof ^ sign).collect();
        // What is compared is a hash, so that the time it takes tells nothing.
        if digest::digest(&digest::SHA256, &client_key).as_ref() != self.verifier.stored_key {
            return None;
        }
        let proof = sign(&self.verifier.server_key);
        Some(format!("v={}", BASE64.encode(proof)))
    }
}

#[cfg(test)]
mod tests {
    use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};

    use super::*;

    /// Does a client with `given` log in where `known` is the password?
    fn logs_in(known: &str, given: &str) -> bool {
        let mut client = ScramSha256::new(given.as_bytes(), ChannelBinding::unsupported());
        let verifier = Verifier::of_password(known);
        let (exchange, answer) = Exchange::start(client.message(), &[7; 18], verifier).unwrap();
        client.update(answer.as_bytes()).unwrap();
        match exchange.finish(client.message()) {
            Some(proof) => {
                client.finish(proof.as_bytes()).unwrap();
                true
            }
            None => false,
        }
    }

    #[test]
    fn only_the_right_password_logs_in() {
        assert!(logs_in("correct horse", "correct horse"));
        assert!(!logs_in("correct horse", "correct"));
        assert!(!logs_in("x", ""));
    }

    #[test]
    fn invalid_messages_are_refused() {
        let verifier = Verifier::of_password("x");
        for first in [
            "",
            "n,,",
            "n,",
            "p=tls-unique,,n=,r=x",
            "x,,n=,r=x",
            "n,,n=a",
        ] {
            let started = Exchange::start(first.as_bytes(), b"", verifier.clone());
            assert!(started.is_none(), "{first}");
        }
        for last in ["", "c=biws,r=abc", "c=biws,r=abc,p=", "c=biws,r=abc,p=AAAA"] {
            let (exchange, _) = Exchange::start(b"n,,n=,r=abc", b"", verifier.clone()).unwrap();
            assert!(exchange.finish(last.as_bytes()).is_none(), "{last}");
        }
    }
}
