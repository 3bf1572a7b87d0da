use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use axum_extra::extract::CookieJar;
use uuid::Uuid;

use crate::auth;
use crate::AppState;

pub const SESSION_COOKIE: &str = "sid";

/// Puts the signed-in user into the request's extensions, or answers 401.
pub async fn require_user(
    State(state): State<AppState>,
    jar: CookieJar,
    mut request: Request,
    next: Next,
) -> Result<Response, StatusCode> {
    let token = jar
        .get(SESSION_COOKIE)
        .and_then(|cookie| Uuid::parse_str(cookie.value()).ok())
        .ok_or(StatusCode::UNAUTHORIZED)?;
    let user = auth::session_user(&state.pool, token)
        .await
        .map_err(|_| StatusCode::UNAUTHORIZED)?;
    request.extensions_mut().insert(user);
    Ok(next.run(request).await)
}
