mod auth;
mod config;
mod database;
mod middleware;
mod models;
mod routes;
mod services;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use auth::AuthService;
use config::Config;
use database::user_repo::UserRepo;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = Config::from_env()?;
    let repo = UserRepo::default();
    let auth = AuthService::new(&repo, &config);
    let listener = TcpListener::bind(&config.listen)?;
    println!("listening on {}", config.listen);
    for stream in listener.incoming() {
        let mut stream = stream?;
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line)?;
        let mut parts = line.split_whitespace();
        let request = routes::Request {
            method: parts.next().unwrap_or_default().to_string(),
            path: parts.next().unwrap_or_default().to_string(),
            headers: Default::default(),
            body: String::new(),
        };
        let response = routes::dispatch(&request, &auth);
        write!(stream, "HTTP/1.1 {}\r\n\r\n{}", response.code, response.body)?;
    }
    Ok(())
}
