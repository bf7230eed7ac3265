// Sends the reason and the typed name of a dangerous write in the query of the form's URL, because the body is the object.
document.addEventListener("submit", (event) => {
  const form = event.target;
  const fields = [...document.querySelectorAll("input.guard")].filter((one) => one.value.trim());
  if (!fields.length || (form.method === "get" && !form.dataset.method)) return;
  const url = new URL(form.getAttribute("action") || location.href, location.href);
  for (const one of fields) url.searchParams.set(one.name, one.value.trim());
  form.setAttribute("action", url.pathname + url.search);
}, true);
