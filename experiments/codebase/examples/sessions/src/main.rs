mod auth;
mod config;
mod database;
mod middleware;
mod models;
mod routes;
mod services;

use sqlx::postgres::PgPoolOptions;

#[derive(Clone)]
pub struct AppState {
    pub pool: sqlx::PgPool,
    pub settings: std::sync::Arc<config::Settings>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt::init();
    let settings = config::Settings::load()?;
    let pool = PgPoolOptions::new()
        .max_connections(settings.database.max_connections)
        .connect(&settings.database.url)
        .await?;
    let listener = tokio::net::TcpListener::bind(settings.http.address).await?;
    let state = AppState { pool, settings: std::sync::Arc::new(settings) };
    axum::serve(listener, routes::router(state)).await?;
    Ok(())
}
