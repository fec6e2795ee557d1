// Pages work without this file. It draws what a table shows otherwise.
"use strict";
