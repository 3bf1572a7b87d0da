use axum::body::Body;
use axum::http::{Request, StatusCode};
use tower::ServiceExt;

mod common;

#[tokio::test]
async fn orders_need_a_cookie() {
    let app = common::app().await;
    let request = Request::get("/orders").body(Body::empty()).unwrap();
    assert_eq!(app.oneshot(request).await.unwrap().status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn signing_in_sets_the_cookie() {
    let app = common::app().await;
    let body = Body::from(r#"{"email":"ada@example.org","password":"correct horse"}"#);
    let request = Request::post("/sign-in").header("content-type", "application/json").body(body).unwrap();
    let response = app.oneshot(request).await.unwrap();
    assert!(response.headers()["set-cookie"].to_str().unwrap().starts_with("sid="));
}
