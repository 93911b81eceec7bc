// A framework that is chosen once is shown in all tabs of all pages that have it.
document.addEventListener("DOMContentLoaded", () => {
  const choices = [...document.querySelectorAll(".tabs > input")];
  const show = (name) => choices.filter((each) => each.value === name).forEach((each) => (each.checked = true));
  try {
    show(localStorage.getItem("framework"));
  } catch {} // where pages may keep nothing
  choices.forEach((each) =>
    each.addEventListener("change", () => {
      const top = each.getBoundingClientRect().top;
      show(each.value);
      scrollBy(0, each.getBoundingClientRect().top - top);
      try {
        localStorage.setItem("framework", each.value);
      } catch {}
    }),
  );
});
