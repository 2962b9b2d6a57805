// Package server calculates the settings of one server: what clients connect to first
// (httpd, HAProxy, OpenShift's router), PostgreSQL, huge pages, and the network of a
// cluster's overlay.
package server
