# karafka.rb
class KarafkaApp < Karafka::App
  setup do |config|
    config.kafka = { 'bootstrap.servers': 'localhost:9092' }
    config.client_id = 'billing'
    config.group_id = 'billing'
  end

  routes.draw do
    topic :orders do
      consumer OrdersConsumer
      dead_letter_queue topic: 'orders.dlq', max_retries: 2
    end
  end
end

# app/consumers/orders_consumer.rb
class OrdersConsumer < Karafka::BaseConsumer
  def consume
    messages.each do |message|
      amount = message.payload.fetch('amount')
      raise ArgumentError, "amount #{amount}" unless amount.positive?

      invoice = { order: message.payload.fetch('id'), total: amount * 119 / 100 }
      producer.produce_sync(topic: 'invoices', payload: invoice.to_json, key: message.key)
      mark_as_consumed(message)
    end
  end

  def revoked = Karafka.logger.info('the partition goes to another process')
end
