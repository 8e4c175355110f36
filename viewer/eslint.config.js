import js from "@eslint/js";
import tseslint from "typescript-eslint";

const node = { console: "readonly", process: "readonly", performance: "readonly", setTimeout: "readonly", URL: "readonly" };
// Bodies of page.evaluate() run in the browser.
const page = { window: "readonly", document: "readonly", requestAnimationFrame: "readonly", matchMedia: "readonly", location: "readonly", DOMParser: "readonly" };

export default tseslint.config(
  { ignores: ["dist/", "node_modules/", "tests/out/"] },
  js.configs.recommended,
  {
    files: ["**/*.ts"],
    extends: [tseslint.configs.recommendedTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { project: "./tsconfig.json", tsconfigRootDir: import.meta.dirname } },
    rules: {
      // Indexing typed arrays inside their bounds is what this program does all day.
      "@typescript-eslint/no-non-null-assertion": "off",
      "@typescript-eslint/explicit-function-return-type": "off",
      eqeqeq: "error",
      "max-lines": ["error", 900],
    },
  },
  { files: ["**/*.mjs", "eslint.config.js"], languageOptions: { globals: { ...node, ...page } } },
);
