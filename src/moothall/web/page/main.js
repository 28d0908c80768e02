// Where the page begins.

import "./hall.js";
import "./goodbyes.js";
import "./news.js";
import "./files/transfers.js";
import { Shell } from "./shell.js";
import { start } from "./session.js";
import { html, render } from "./ui.js";

const place = document.getElementById("page");
place.replaceChildren(); // what was there to be seen until now
render(html`<${Shell} />`, place);
start();
