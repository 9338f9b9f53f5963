//! The roles of the store as this server knows them: for logins, and kept fresh for the checks of
//! statements.
//!
//! Another server may have made a change. The coordinator announces each new configuration once to
//! a client that has found none, so that this server asks again after each change, and in any case
//! from time to time. While it cannot reach the coordinator, it goes on with the roles that it
//! knows.

use std::time::Duration;

use pg_auth::admission::RoleSecret;
use pg_auth::password::INVALID_AUTHORIZATION;
use pg_auth::scram::ScramVerifier;
use pg_wire::report::{Report, Severity};
use protocol::configuration::Roles;
use sql::Store;
use tokio::time::{Instant, sleep, timeout};

/// How often the coordinator is asked for a newer configuration at least.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// How often the server looks whether an announcement has brought a newer configuration.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a login waits for the coordinator.
const LOGIN_WAITS: Duration = Duration::from_secs(1);

/// Keeps the configuration that a store knows fresh. Never ends.
pub async fn follow<S: Store>(store: S) {
    loop {
        // If it fails, the configuration stays as it is.
        let _ = store.refresh().await;
        let (known, begun) = (store.configuration().epoch, Instant::now());
        while begun.elapsed() < ASK_EVERY {
            sleep(LOOK_EVERY).await;
            if store.configuration().epoch != known {
                break;
            }
        }
    }
}

/// Returns the roles by which a user logs in. Asks for the newest ones if the user is none of those
/// that are known.
pub async fn for_login<S: Store>(store: &S, user: &str) -> std::sync::Arc<Roles> {
    let known = store.configuration();
    if known
        .roles
        .named(user)
        .is_some_and(|role| role.password.is_some())
    {
        return known.roles.clone();
    }
    match timeout(LOGIN_WAITS, store.refresh()).await {
        Ok(Ok(newest)) => newest.roles.clone(),
        _ => known.roles.clone(),
    }
}

/// Returns whether a user may log in, which counts after the password, and what is known of the
/// password.
pub fn for_user(roles: &Roles, user: &str) -> (Result<(), Report>, RoleSecret) {
    let role = roles.named(user);
    let permitted = match role {
        Some(role) if !role.can_login => {
            let text = format!("role \"{user}\" is not permitted to log in");
            Err(Report::new(Severity::Fatal, INVALID_AUTHORIZATION, text))
        }
        _ => Ok(()),
    };
    let verifier = role.and_then(|role| role.password.as_ref());
    let secret = RoleSecret {
        verifier: verifier.and_then(|text| ScramVerifier::parse(&text.0)),
        is_demanded: roles.has_passwords(),
    };
    (permitted, secret)
}
