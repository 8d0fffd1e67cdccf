// A handler's file that fails before it has a handler.
throw new Error("a setting is missing");
