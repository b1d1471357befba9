// Starts the page, or says what keeps it from starting, in JavaScript that old browsers know, too.

(function () {
  var status = document.getElementById("status");
  var first = status.textContent;
  var script = document.createElement("script");
  if (location.protocol === "file:") {
    status.textContent = "Browsers load no model from a file. Type python -m http.server in this folder, and open http://localhost:8000.";
  } else if (typeof DecompressionStream === "undefined" || !Array.prototype.at) {
    // `at` is as young as what the runtime needs of WebAssembly.
    status.textContent = "This browser is too old for the page. Use Chrome or Edge 92, Firefox 113, Safari 16.4, or a later one.";
  } else {
    // A script that is missing or cut; what app.js meets later, it says itself.
    addEventListener("error", function () {
      if (status.textContent === first) {
        status.textContent = "The page cannot start: a script is missing or damaged. Copy the whole folder to the server again, and reload.";
      }
    }, true);
    script.type = "module";
    script.src = "app.js";
    document.body.appendChild(script);
  }
})();
