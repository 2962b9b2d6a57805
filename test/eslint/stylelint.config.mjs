export default {
    extends: "stylelint-config-standard",
    rules: {
        // Short rules stand on one line, and groups of them together.
        "rule-empty-line-before": null,
        "declaration-block-single-line-max-declarations": null,
        "at-rule-empty-line-before": null,
        // Browsers of 2022 do not know (width <= 768px).
        "media-feature-range-notation": null,
    },
};
