//! Settings, read once at the start from the environment.

use std::env;
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Config {
    pub listen: String,
    pub database_url: String,
    /// Signs access tokens. Must be the same on every instance.
    pub jwt_secret: String,
    pub token_lifetime: Duration,
}

impl Config {
    pub fn from_env() -> Result<Config, env::VarError> {
        Ok(Config {
            listen: env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:8080".into()),
            database_url: env::var("DATABASE_URL")?,
            jwt_secret: env::var("JWT_SECRET")?,
            token_lifetime: Duration::from_secs(
                env::var("TOKEN_SECONDS")
                    .ok()
                    .and_then(|text| text.parse().ok())
                    .unwrap_or(3600),
            ),
        })
    }
}
