// Package server calculates the settings of single servers: front ends that clients connect to
// (httpd, HAProxy, OpenShift's router), PostgreSQL, huge pages, and the network of a cluster's
// overlay.
package server
