//! Every order of a few messages, good and bad, whole and byte by byte.

use std::sync::OnceLock;

use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};

use super::*;

/// A message, or bytes that are none, of a client that logs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// An offered mechanism and a first message.
    First,
    OtherMechanism,
    /// A first message of another length than it says.
    CutFirst,
    /// The proof for the last challenge; a made-up one if there was none.
    RightProof,
    WrongProof,
    /// A second StartupMessage.
    Startup,
    TlsRequest,
    CancelRequest,
    Query,
    /// A password message longer than there may be.
    Long,
    /// A password message above 2³¹ bytes.
    Endless,
    /// A password message whose length excludes itself.
    Short,
    Empty,
}

use Sent::*;

const ALL: [Sent; 13] = [
    First,
    OtherMechanism,
    CutFirst,
    RightProof,
    WrongProof,
    Startup,
    TlsRequest,
    CancelRequest,
    Query,
    Long,
    Endless,
    Short,
    Empty,
];

const USER: &str = "ann";
const PASSWORD: &str = "right";

/// A login with its client.
struct Login {
    machine: PasswordLogin,
    client: ScramSha256,
    is_challenged: bool,
    input: BytesMut,
}

impl Login {
    fn of(user: &str) -> Login {
        // To make a verifier of a password takes long.
        static USERS: OnceLock<UserSecrets> = OnceLock::new();
        let users = USERS.get_or_init(|| {
            let mut users = UserSecrets::default();
            users.add(USER, PASSWORD).unwrap();
            users
        });
        let offer = OfferedMechanisms::default();
        let machine = PasswordLogin::begin(users, user, offer);
        let mut output = BytesMut::new();
        machine.offer(&mut output);
        assert_eq!(output[..], *b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0");
        Login {
            machine,
            client: ScramSha256::new(PASSWORD.as_bytes(), ChannelBinding::unsupported()),
            is_challenged: false,
            input: BytesMut::new(),
        }
    }

    fn bytes(&self, sent: Sent) -> Vec<u8> {
        let first = |mechanism: &str, more: usize| {
            let text = self.client.message();
            let length = u32::try_from(text.len() + more).unwrap().to_be_bytes();
            password(&[mechanism.as_bytes(), b"\0", &length, text])
        };
        let proof = match self.is_challenged {
            true => self.client.message().to_vec(),
            false => b"c=biws,r=abc,p=AAAA".to_vec(),
        };
        match sent {
            First if self.is_challenged => password(&[b"SCRAM-SHA-256\0\0\0\0\x08n,,r=abc"]),
            First => first("SCRAM-SHA-256", 0),
            OtherMechanism => first("SCRAM-SHA-256-PLUS", 0),
            CutFirst => first("SCRAM-SHA-256", 1),
            RightProof => password(&[&proof]),
            WrongProof => {
                // Another digit in the middle of the proof.
                let mut proof = proof;
                let at = proof.len() - 20.min(proof.len());
                proof[at] = if proof[at] == b'A' { b'B' } else { b'A' };
                password(&[&proof])
            }
            Startup => b"\0\0\0\x12\0\x03\0\0user\0eve\0\0".to_vec(),
            TlsRequest => vec![0, 0, 0, 8, 4, 210, 22, 47],
            CancelRequest => vec![0, 0, 0, 16, 4, 210, 22, 46, 0, 0, 0, 1, 0, 0, 0, 2],
            Query => b"Q\0\0\0\x0dSELECT 1\0".to_vec(),
            Long => b"p\0\x01\0\0".to_vec(),
            Endless => b"p\x80\0\0\x01".to_vec(),
            Short => b"p\0\0\0\x03".to_vec(),
            Empty => b"p\0\0\0\x04".to_vec(),
        }
    }

    /// Returns the progress after these bytes.
    fn take(&mut self, bytes: &[u8]) -> Result<LoginProgress, Report> {
        self.input.extend_from_slice(bytes);
        let mut output = BytesMut::new();
        let progress = self.machine.next(&mut self.input, &mut output)?;
        if output.starts_with(b"R") && output[8] == 11 {
            self.client.update(&output[9..]).unwrap();
            self.is_challenged = true;
        }
        if progress == LoginProgress::LoggedIn {
            assert_eq!(output[8], 12);
            self.client.finish(&output[9..]).unwrap();
        }
        Ok(progress)
    }
}

fn password(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = BytesMut::new();
    message::write(&mut out, b'p', parts, 0);
    out.to_vec()
}

/// Returns the result of these messages: whether the client is logged in, or the SQLSTATE.
fn run(user: &str, sent: &[Sent], step: usize) -> Result<bool, String> {
    let mut login = Login::of(user);
    for one in sent {
        let bytes = login.bytes(*one);
        for piece in bytes.chunks(step) {
            match login.take(piece) {
                Ok(LoginProgress::Waits) => {}
                Ok(LoginProgress::LoggedIn) => return Ok(true),
                Err(report) => {
                    assert_eq!(report.severity, Severity::Fatal);
                    assert!(login.input.len() <= MESSAGE_LEN_MAX);
                    return Err(report.code.to_string());
                }
            }
        }
    }
    Ok(false)
}

#[test]
fn only_a_right_proof_after_a_challenge_logs_in() {
    let mut orders = 0;
    for one in ALL {
        for two in ALL {
            for three in ALL {
                let sent = [one, two, three];
                for user in [USER, "eve"] {
                    let results = [usize::MAX, 1].map(|step| run(user, &sent, step));
                    assert_eq!(results[0], results[1], "{sent:?}");
                    let expected = match (one, two) {
                        (First, RightProof) if user == USER => Ok(true),
                        (First, RightProof | WrongProof) => Err(INVALID_PASSWORD),
                        _ => Err(PROTOCOL_VIOLATION),
                    };
                    let found = results[0].as_ref();
                    assert_eq!(found.copied().map_err(|it| &**it), expected, "{sent:?}");
                    orders += 1;
                }
            }
        }
    }
    assert_eq!(orders, 2 * 13 * 13 * 13);
}

#[test]
fn a_login_that_is_over_stays_over() {
    let mut login = Login::of(USER);
    let wrong = login.bytes(OtherMechanism);
    assert!(login.take(&wrong).is_err());
    let first = login.bytes(First);
    assert_eq!(login.take(&first).unwrap_err().code, PROTOCOL_VIOLATION);
}

#[test]
fn messages_are_not_awaited_that_may_not_come() {
    for (bytes, refused) in [
        (&b"Q"[..], true),
        (b"\0", true),
        (b"p\0\x01\0\0", true),
        (b"p\xff\xff\xff\xff", true),
        (b"p\0\0\0\x03", true),
        (b"p\0\0\xff\xff", false),
        (b"p\0\0", false),
        (b"", false),
    ] {
        assert_eq!(Login::of(USER).take(bytes).is_err(), refused, "{bytes:?}");
    }
}
