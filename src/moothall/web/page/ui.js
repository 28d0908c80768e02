// Preact and htm, put together once. Every component of the page imports them from here.

import { h, render, Fragment, Component } from "./vendor/preact.js";
import { useEffect, useLayoutEffect, useMemo, useRef, useState, useCallback } from "./vendor/hooks.js";
import htm from "./vendor/htm.js";

export const html = htm.bind(h);
export { h, render, Fragment, Component, useEffect, useLayoutEffect, useMemo, useRef, useState, useCallback };
