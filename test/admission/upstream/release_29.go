//go:build kubernetes_1_29

package upstream

const release = 29
