//! Sign-in: checks credentials and issues access tokens.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::config::Config;
use crate::database::user_repo::UserRepo;
use crate::models::user::User;

/// What a client sends to sign in.
#[derive(Debug, Clone)]
pub struct Credentials {
    pub email: String,
    pub password: String,
}

/// A signed statement of who the caller is.
#[derive(Debug, Clone, PartialEq)]
pub struct Claims {
    pub sub: u64,
    pub exp: u64,
}

#[derive(Debug, PartialEq)]
pub enum AuthError {
    WrongCredentials,
    Expired,
    Malformed,
}

pub struct AuthService<'a> {
    repo: &'a UserRepo,
    config: &'a Config,
}

impl<'a> AuthService<'a> {
    pub fn new(repo: &'a UserRepo, config: &'a Config) -> Self {
        AuthService { repo, config }
    }

    /// Check an email and a password; a token on success.
    pub fn login(&self, credentials: &Credentials) -> Result<String, AuthError> {
        let user = self
            .repo
            .by_email(&credentials.email)
            .ok_or(AuthError::WrongCredentials)?;
        if !verify_password(&user, &credentials.password) {
            return Err(AuthError::WrongCredentials);
        }
        Ok(self.issue(&user))
    }

    fn issue(&self, user: &User) -> String {
        let exp = now() + self.config.token_lifetime.as_secs();
        let payload = format!("{}.{}", user.id, exp);
        format!("{}.{:x}", payload, sign(&payload, &self.config.jwt_secret))
    }

    /// Read a token back.
    pub fn verify(&self, token: &str) -> Result<Claims, AuthError> {
        let (payload, signature) = token.rsplit_once('.').ok_or(AuthError::Malformed)?;
        if format!("{:x}", sign(payload, &self.config.jwt_secret)) != signature {
            return Err(AuthError::Malformed);
        }
        let (sub, exp) = payload.split_once('.').ok_or(AuthError::Malformed)?;
        let claims = Claims {
            sub: sub.parse().map_err(|_| AuthError::Malformed)?,
            exp: exp.parse().map_err(|_| AuthError::Malformed)?,
        };
        if claims.exp < now() {
            return Err(AuthError::Expired);
        }
        Ok(claims)
    }
}

fn verify_password(user: &User, password: &str) -> bool {
    user.password_hash == format!("{:x}", sign(password, &user.salt))
}

fn sign(text: &str, secret: &str) -> u64 {
    text.bytes()
        .chain(secret.bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs()
}
