// who reads by the keyboard scrolls what is wider than the screen
function reach() {
  for (const part of document.querySelectorAll("pre, .table-wrapper, .output")) {
    if (part.scrollWidth > part.clientWidth) part.setAttribute("tabindex", "0");
    else part.removeAttribute("tabindex");
  }
}
addEventListener("load", reach);
addEventListener("resize", reach);
