"""A small web shop in Rust, with the files that document 003 names and as many others, as commits of a repository."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.checkout import Checkout, written

_ORDER = """//! An order of a customer.
use crate::models::user::UserId;

#[derive(Debug, Clone)]
pub struct Order {
    pub id: u64,
    pub customer: UserId,
    pub lines: Vec<OrderLine>,
}

#[derive(Debug, Clone)]
pub struct OrderLine {
    pub product: String,
    pub price_cents: u64,
    pub amount: u32,
}

impl Order {
    pub fn total_cents(&self) -> u64 {
        self.lines.iter().map(|line| line.price_cents * u64::from(line.amount)).sum()
    }
}
"""
_USER = """//! A user of the shop.
pub type UserId = u64;

#[derive(Debug, Clone, PartialEq)]
pub struct User {
    pub id: UserId,
    pub email: String,
    pub password_hash: String,
}

impl User {
    pub fn new(id: UserId, email: &str, password_hash: &str) -> Self {
        User { id, email: email.to_string(), password_hash: password_hash.to_string() }
    }
}
"""
_USER_REPO = """//! Users in the database.
use crate::database::Pool;
use crate::models::user::{User, UserId};

pub struct UserRepo {
    pool: Pool,
}

impl UserRepo {
    pub fn new(pool: Pool) -> Self {
        UserRepo { pool }
    }

    pub fn by_id(&self, id: UserId) -> Option<User> {
        self.pool.query_one("SELECT id, email, password_hash FROM users WHERE id = $1", &[&id])
    }

    pub fn by_email(&self, email: &str) -> Option<User> {
        self.pool.query_one("SELECT id, email, password_hash FROM users WHERE email = $1", &[&email])
    }
}
"""
_USER_SERVICE = """//! What the shop does with users.
use crate::database::user_repo::UserRepo;
use crate::models::user::{User, UserId};

pub struct UserService {
    repo: UserRepo,
}

impl UserService {
    pub fn new(repo: UserRepo) -> Self {
        UserService { repo }
    }

    pub fn find(&self, id: UserId) -> Option<User> {
        self.repo.by_id(id)
    }

    pub fn find_by_email(&self, email: &str) -> Option<User> {
        self.repo.by_email(&normalised(email))
    }
}

fn normalised(email: &str) -> String {
    email.trim().to_string()
}
"""
_USER_SERVICE_TEST = """use shop::database::{user_repo::UserRepo, Pool};
use shop::services::user_service::UserService;

#[test]
fn finds_a_user_by_email() {
    let service = UserService::new(UserRepo::new(Pool::in_memory()));
    assert!(service.find_by_email("a@example.org").is_none());
}
"""
_AUTH = """//! Authentication: who a request comes from.
use crate::config::Config;
use crate::database::user_repo::UserRepo;
use crate::models::user::User;

pub struct Session {
    pub user: User,
    pub token: Token,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Token(pub String);

pub struct Authenticator {
    users: UserRepo,
    secret: String,
}

impl Authenticator {
    pub fn new(users: UserRepo, config: &Config) -> Self {
        Authenticator { users, secret: config.token_secret.clone() }
    }

    pub fn login(&self, email: &str, password: &str) -> Option<Session> {
        let user = self.users.by_email(email)?;
        (user.password_hash == hash(password)).then(|| Session { token: self.token(&user), user })
    }

    fn token(&self, user: &User) -> Token {
        Token(hash(&format!("{}{}", user.id, self.secret)))
    }
}

fn hash(text: &str) -> String {
    format!("{:x}", text.bytes().fold(5381u64, |sum, byte| sum * 33 + u64::from(byte)))
}
"""
_AUTH_MIDDLEWARE = """//! Lets requests through that have a valid token.
use crate::auth::{Authenticator, Token};
use crate::middleware::{Middleware, Next, Request, Response};

pub struct RequireAuth {
    authenticator: Authenticator,
}

impl Middleware for RequireAuth {
    fn handle(&self, request: Request, next: Next) -> Response {
        match request.header("Authorization").map(|value| Token(value.to_string())) {
            Some(token) => next.run(request.with(token)),
            None => Response::unauthorized(),
        }
    }
}
"""
_ROUTES = """//! Which handler answers which path.
use crate::middleware::{auth::RequireAuth, logging::Logging, Router};

pub mod orders;
pub mod users;

pub fn router(auth: RequireAuth) -> Router {
    Router::new()
        .with(Logging)
        .post("/login", users::login)
        .guarded(auth)
        .get("/orders", orders::list)
}
"""
_CONFIG = """//! Settings from the environment.
pub struct Config {
    pub database_url: String,
    pub token_secret: String,
    pub most_orders: usize,
}

impl Config {
    pub fn from_env() -> Self {
        Config { database_url: var("DATABASE_URL"), token_secret: var("TOKEN_SECRET"), most_orders: 50 }
    }
}

fn var(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
"""
_MAIN = """use shop::{config::Config, routes, server};

fn main() {
    let config = Config::from_env();
    server::run(routes::router(server::guard(&config)), 8080);
}
"""
_AUTH_TESTS = """use shop::auth::Authenticator;
use shop::config::Config;
use shop::database::{user_repo::UserRepo, Pool};

#[test]
fn a_wrong_password_gives_no_session() {
    let authenticator = Authenticator::new(UserRepo::new(Pool::in_memory()), &Config::from_env());
    assert!(authenticator.login("a@example.org", "wrong").is_none());
}
"""
_LOGIN_TEST = """use shop::server::TestClient;

#[test]
fn a_login_without_a_password_is_refused() {
    let answer = TestClient::new().post("/login", "email=a@example.org");
    assert_eq!(answer.status, 401);
}
"""
_LOGGING = """//! Writes a line for each request.
use crate::middleware::{Middleware, Next, Request, Response};

pub struct Logging;

impl Middleware for Logging {
    fn handle(&self, request: Request, next: Next) -> Response {
        println!("{} {}", request.method, request.path);
        next.run(request)
    }
}
"""
_MIDDLEWARE = """//! What stands between the server and the handlers.
pub mod auth;
pub mod logging;

pub trait Middleware {
    fn handle(&self, request: Request, next: Next) -> Response;
}
"""
_DATABASE = """//! Connections to the database.
pub mod order_repo;
pub mod user_repo;

#[derive(Clone)]
pub struct Pool {
    url: String,
}

impl Pool {
    pub fn in_memory() -> Self {
        Pool { url: "memory:".to_string() }
    }
}
"""
_ORDER_REPO = """//! Orders in the database.
use crate::database::Pool;
use crate::models::order::Order;

pub struct OrderRepo {
    pool: Pool,
}

impl OrderRepo {
    pub fn of_customer(&self, customer: u64, most: usize) -> Vec<Order> {
        self.pool.query("SELECT id, lines FROM orders WHERE customer = $1 LIMIT $2", &[&customer, &most])
    }
}
"""
_ORDER_SERVICE = """//! What the shop does with orders.
use crate::database::order_repo::OrderRepo;
use crate::models::order::Order;

pub struct OrderService {
    repo: OrderRepo,
}

impl OrderService {
    pub fn latest(&self, customer: u64) -> Vec<Order> {
        self.repo.of_customer(customer, 50)
    }
}
"""
_ORDER_ROUTES = """//! Handlers for orders.
use crate::middleware::{Request, Response};

pub fn list(request: Request) -> Response {
    Response::json(request.services().orders.latest(request.customer()))
}
"""
_USER_ROUTES = """//! Handlers for users.
use crate::middleware::{Request, Response};

pub fn login(request: Request) -> Response {
    match request.services().authenticator.login(request.field("email"), request.field("password")) {
        Some(session) => Response::json(session.token),
        None => Response::unauthorized(),
    }
}
"""
_SERVER = """//! Answers requests over HTTP.
use crate::middleware::Router;

pub fn run(router: Router, port: u16) {
    for stream in std::net::TcpListener::bind(("127.0.0.1", port)).expect("a free port").incoming() {
        router.answer(stream);
    }
}
"""
_PRICES = """//! Prices as text.
pub fn euros(cents: u64) -> String {
    format!("{}.{:02} EUR", cents / 100, cents % 100)
}
"""
_ORDER_TEST = """use shop::models::order::{Order, OrderLine};

#[test]
fn a_total_is_the_sum_of_the_lines() {
    let line = OrderLine { product: "tea".into(), price_cents: 250, amount: 2 };
    assert_eq!(Order { id: 1, customer: 7, lines: vec![line] }.total_cents(), 500);
}
"""
_LIB = "pub mod auth;\npub mod config;\npub mod database;\npub mod middleware;\npub mod models;\npub mod prices;\n"
_README = "# Shop\n\nA shop that sells tea. `cargo run` starts it.\n"
_CARGO = '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n'

Change = tuple[str, Mapping[str, str]]
COMMITS: tuple[Change, ...] = (
    (
        "Sell tea: orders, prices and a server",
        {
            "Cargo.toml": _CARGO,
            "README.md": _README,
            "src/main.rs": _MAIN.replace("server::guard(&config)", ""),
            "src/lib.rs": _LIB.replace("pub mod auth;\n", ""),
            "src/config.rs": _CONFIG.replace("    pub token_secret: String,\n", ""),
            "src/server.rs": _SERVER,
            "src/prices.rs": _PRICES,
            "src/models/order.rs": _ORDER,
            "src/database/mod.rs": _DATABASE.replace("pub mod user_repo;\n", ""),
            "src/database/order_repo.rs": _ORDER_REPO,
            "src/services/order_service.rs": _ORDER_SERVICE.replace("50", "20"),
            "src/routes/mod.rs": _ROUTES.replace(".guarded(auth)", ""),
            "src/routes/orders.rs": _ORDER_ROUTES,
            "src/middleware/mod.rs": _MIDDLEWARE.replace("pub mod auth;\n", ""),
            "src/middleware/logging.rs": _LOGGING,
            "tests/order_test.rs": _ORDER_TEST,
        },
    ),
    (
        "Keep users in the database",
        {
            "src/models/user.rs": _USER.replace("    pub password_hash: String,\n", ""),
            "src/database/user_repo.rs": _USER_REPO,
            "src/database/mod.rs": _DATABASE,
            "src/services/user_service.rs": _USER_SERVICE.replace(".trim()", ""),
            "tests/user_service_test.rs": _USER_SERVICE_TEST,
        },
    ),
    (
        "Let users log in with a password",
        {
            "src/auth/mod.rs": _AUTH.replace("self.secret", '"secret"'),
            "src/lib.rs": _LIB,
            "src/models/user.rs": _USER,
            "src/routes/users.rs": _USER_ROUTES,
            "src/routes/mod.rs": _ROUTES.replace("        .guarded(auth)\n", ""),
            "tests/integration/login_test.rs": _LOGIN_TEST,
        },
    ),
    (
        "Ask for authentication before orders are shown",
        {
            "src/middleware/auth.rs": _AUTH_MIDDLEWARE,
            "src/middleware/mod.rs": _MIDDLEWARE,
            "src/routes/mod.rs": _ROUTES,
            "src/main.rs": _MAIN,
            "tests/auth_tests.rs": _AUTH_TESTS,
        },
    ),
    ("Take the secret of tokens from the configuration", {"src/config.rs": _CONFIG, "src/auth/mod.rs": _AUTH}),
    ("Ignore blanks around an email", {"src/services/user_service.rs": _USER_SERVICE}),
    ("Show the latest fifty orders", {"src/services/order_service.rs": _ORDER_SERVICE}),
)


def rust_shop(root: Path) -> Checkout:
    """The repository, with a commit on each of the first days of January."""
    return written(root, COMMITS)
