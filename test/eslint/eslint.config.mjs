import js from "@eslint/js";

export default [
    js.configs.recommended,
    {
        languageOptions: {
            ecmaVersion: 2022,
            sourceType: "module",
            globals: Object.fromEntries(["document", "window", "location", "localStorage", "performance", "setInterval", "setTimeout", "matchMedia", "CSS", "URL", "btoa"].map(name => [name, "readonly"])),
        },
        rules: { curly: ["error", "multi-or-nest", "consistent"], eqeqeq: "error", "no-var": "error", "prefer-const": "error", "no-implicit-globals": "error" },
    },
];
