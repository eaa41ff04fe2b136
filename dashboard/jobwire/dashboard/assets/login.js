// Whoever follows a link from another site arrives without the cookie (SameSite=Strict), but may have it:
// asked from here, the server leads on.

const answer = await fetch(location.href, { redirect: "manual" }).catch(() => null);
if (answer?.type === "opaqueredirect") location.replace(location.href);
