use chrono::{DateTime, Utc};
use sqlx::PgPool;
use uuid::Uuid;

use crate::auth::Session;
use crate::models::user::{NewUser, User};

pub async fn find_by_email(pool: &PgPool, email: &str) -> sqlx::Result<Option<User>> {
    sqlx::query_as("SELECT * FROM users WHERE email = $1")
        .bind(email)
        .fetch_optional(pool)
        .await
}

pub async fn create(pool: &PgPool, new: &NewUser, hash: &str) -> sqlx::Result<User> {
    sqlx::query_as("INSERT INTO users (email, name, password_hash) VALUES ($1, $2, $3) RETURNING *")
        .bind(&new.email)
        .bind(&new.name)
        .bind(hash)
        .fetch_one(pool)
        .await
}

pub async fn store_session(pool: &PgPool, session: &Session) -> sqlx::Result<()> {
    sqlx::query("INSERT INTO sessions (token, user_id, expires_at) VALUES ($1, $2, $3)")
        .bind(session.token)
        .bind(session.user_id)
        .bind(session.expires_at)
        .execute(pool)
        .await
        .map(|_| ())
}

pub async fn by_session(pool: &PgPool, token: Uuid) -> sqlx::Result<Option<(User, DateTime<Utc>)>> {
    let expires: Option<(i64, DateTime<Utc>)> =
        sqlx::query_as("SELECT user_id, expires_at FROM sessions WHERE token = $1")
            .bind(token)
            .fetch_optional(pool)
            .await?;
    let Some((id, expires_at)) = expires else { return Ok(None) };
    let user = sqlx::query_as("SELECT * FROM users WHERE id = $1").bind(id).fetch_one(pool).await?;
    Ok(Some((user, expires_at)))
}
