def send(queue, item):
    if queue.open:
        start_timer(queue, item)
    else:
        with queue.lock:
            drop_item(queue, item)
        count_lost(queue, 1)
