use argon2::{Argon2, PasswordHash, PasswordVerifier};
use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use crate::config::AuthConfig;
use crate::database::user_repo;
use crate::models::user::User;

pub struct Session {
    pub token: Uuid,
    pub user_id: i64,
    pub expires_at: DateTime<Utc>,
}

#[derive(thiserror::Error, Debug)]
pub enum AuthError {
    #[error("invalid email or password")]
    InvalidCredentials,
    #[error("session expired")]
    SessionExpired,
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Authenticates a user by email and password and opens a session.
pub async fn authenticate(
    pool: &sqlx::PgPool,
    config: &AuthConfig,
    email: &str,
    password: &str,
) -> Result<Session, AuthError> {
    let user = user_repo::find_by_email(pool, email)
        .await?
        .ok_or(AuthError::InvalidCredentials)?;
    check_password(&user, password)?;
    let session = Session {
        token: Uuid::new_v4(),
        user_id: user.id,
        expires_at: Utc::now() + Duration::minutes(config.session_ttl_minutes),
    };
    user_repo::store_session(pool, &session).await?;
    Ok(session)
}

pub async fn session_user(pool: &sqlx::PgPool, token: Uuid) -> Result<User, AuthError> {
    let (user, expires_at) = user_repo::by_session(pool, token)
        .await?
        .ok_or(AuthError::SessionExpired)?;
    if expires_at < Utc::now() {
        return Err(AuthError::SessionExpired);
    }
    Ok(user)
}

fn check_password(user: &User, password: &str) -> Result<(), AuthError> {
    let hash = PasswordHash::new(&user.password_hash).map_err(|_| AuthError::InvalidCredentials)?;
    Argon2::default()
        .verify_password(password.as_bytes(), &hash)
        .map_err(|_| AuthError::InvalidCredentials)
}
