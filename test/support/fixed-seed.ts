/**
 * Property tests draw the same values in every run, so that a failure belongs to a change and not to luck.
 * PROPERTY_SEED=N draws others; what they find becomes a test of its own.
 */
import fc from "fast-check";

fc.configureGlobal({ seed: Number(process.env["PROPERTY_SEED"] ?? 1) });
