use serde::Deserialize;

#[derive(Debug, Clone, Deserialize)]
pub struct Settings {
    pub http: HttpConfig,
    pub database: DatabaseConfig,
    pub auth: AuthConfig,
}

#[derive(Debug, Clone, Deserialize)]
pub struct HttpConfig {
    pub address: std::net::SocketAddr,
}

#[derive(Debug, Clone, Deserialize)]
pub struct DatabaseConfig {
    pub url: String,
    pub max_connections: u32,
}

#[derive(Debug, Clone, Deserialize)]
pub struct AuthConfig {
    pub session_ttl_minutes: i64,
}

impl Settings {
    pub fn load() -> anyhow::Result<Settings> {
        let file = std::env::var("SETTINGS").unwrap_or_else(|_| "settings.toml".to_string());
        Ok(toml::from_str(&std::fs::read_to_string(file)?)?)
    }
}
