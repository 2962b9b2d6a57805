// Package findings prints the findings of an audit, as tables, Markdown, HTML, SARIF and
// OpenMetrics, and compares them with an earlier audit and between machines.
package findings
