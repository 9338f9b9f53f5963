//! Authenticates clients: by a certificate, or by a password.

use bytes::BytesMut;

use super::Admission;
use super::login_failure::LoginFailure;
use pg_auth::admission::ClientOrigin;
use pg_auth::password::LoginProgress;
use pg_connect::stream::BufferedStream;
use proxy_pool::ServerLogin;

/// Authenticates a client as this user. Returns the login at its servers.
pub async fn ask(
    peer: &mut BufferedStream,
    admission: &Admission,
    user: &str,
) -> Result<ServerLogin, LoginFailure> {
    let origin = match (peer.network(), peer.is_encrypted()) {
        (None, _) => ClientOrigin::Local,
        (Some(_), false) => ClientOrigin::Plain,
        (Some(_), true) => ClientOrigin::Encrypted(peer.certificate()),
    };
    let login = admission.clients.begin(user, origin)?;
    if let Some(mut login) = login {
        let mut output = BytesMut::new();
        login.offer(&mut output);
        loop {
            if !output.is_empty() {
                peer.write_all(&output).await?;
                output.clear();
            }
            let is_in = login.next(&mut peer.input, &mut output)? == LoginProgress::LoggedIn;
            if is_in {
                peer.write_all(&output).await?;
                break;
            }
            if output.is_empty() && peer.read().await? == 0 {
                return Err(LoginFailure::Gone);
            }
        }
    }
    let known = admission.clients.users().find(user);
    Ok(ServerLogin {
        password: known.and_then(|user| user.password.clone()),
    })
}
