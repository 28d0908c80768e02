// The views of the page, in the order of the navigation. A new view is one row: its hash, its link, its component.
// One that is for all is shown also where the hall hides itself from strangers.

import { late } from "./parts/late.js";
import { Agents } from "./views/agents.js";
import { Channels } from "./views/channels.js";

export const VIEWS = [
  { name: "channels", label: "Channels", View: Channels },
  { name: "agents", label: "Agents", View: Agents },
  { name: "deals", label: "Deals", View: late(async () => (await import("./views/deals.js")).Deals) },
  { name: "court", label: "Court", View: late(async () => (await import("./views/court.js")).Court) },
  { name: "mesh", label: "Mesh", View: late(async () => (await import("./views/mesh.js")).Mesh) },
  { name: "operator", label: "Operator", View: late(async () => (await import("./views/operator.js")).Operator), isForAll: true },
];
