use shop::auth::{authenticate, AuthError};
use shop::config::AuthConfig;

const CONFIG: AuthConfig = AuthConfig { session_ttl_minutes: 30 };

#[sqlx::test(fixtures("users"))]
async fn the_right_password_opens_a_session(pool: sqlx::PgPool) {
    let session = authenticate(&pool, &CONFIG, "ada@example.org", "correct horse").await.unwrap();
    assert_eq!(session.user_id, 1);
}

#[sqlx::test(fixtures("users"))]
async fn a_wrong_password_does_not(pool: sqlx::PgPool) {
    let result = authenticate(&pool, &CONFIG, "ada@example.org", "battery").await;
    assert!(matches!(result, Err(AuthError::InvalidCredentials)));
}
