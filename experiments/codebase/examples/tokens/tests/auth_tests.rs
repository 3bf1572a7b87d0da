use std::time::Duration;

use accounts::auth::{AuthError, AuthService, Credentials};
use accounts::config::Config;
use accounts::database::user_repo::UserRepo;

fn config(lifetime: u64) -> Config {
    Config {
        listen: String::new(),
        database_url: String::new(),
        jwt_secret: "secret".into(),
        token_lifetime: Duration::from_secs(lifetime),
    }
}

#[test]
fn unknown_address_is_rejected() {
    let (repo, config) = (UserRepo::default(), config(60));
    let service = AuthService::new(&repo, &config);
    let credentials = Credentials { email: "no@example.org".into(), password: "x".into() };
    assert_eq!(service.login(&credentials), Err(AuthError::WrongCredentials));
}

#[test]
fn a_forged_token_is_malformed() {
    let (repo, config) = (UserRepo::default(), config(60));
    let service = AuthService::new(&repo, &config);
    assert_eq!(service.verify("1.99999999999.abc"), Err(AuthError::Malformed));
}
