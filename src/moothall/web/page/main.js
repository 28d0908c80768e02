// Where the page begins.

import "./hall.js";
import "./goodbyes.js";
import "./files/transfers.js";
import { Shell } from "./shell.js";
import { start } from "./session.js";
import { html, render } from "./ui.js";

render(html`<${Shell} />`, document.getElementById("page"));
start();
