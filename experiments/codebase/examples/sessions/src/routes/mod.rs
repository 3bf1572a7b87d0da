use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use axum::Router;

use crate::middleware::auth::require_user;
use crate::AppState;

mod orders;
mod sign_in;

pub fn router(state: AppState) -> Router {
    let members = Router::new()
        .route("/orders", get(orders::list).post(orders::create))
        .route("/orders/:id", get(orders::show))
        .route_layer(from_fn_with_state(state.clone(), require_user));
    Router::new()
        .route("/health", get(|| async { "ok" }))
        .route("/sign-in", post(sign_in::create).delete(sign_in::destroy))
        .merge(members)
        .with_state(state)
}
